//! Results in a safetensors file: a tensor for each case, in the metadata the errors and what made the file.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use anyhow::{bail, ensure, Context as _, Result};
use candle_core::{DType, Device, Tensor, WithDType};
use float8::F8E4M3;
use half::{bf16, f16};
use safetensors::tensor::{Dtype, SafeTensors, View};

use crate::numbers::{float_of_eight_bits, Numbers};

/// A tensor's bytes on the host, little-endian.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Of the elements.
    pub dtype: DType,
    /// Sizes of the dimensions.
    pub dims: Vec<usize>,
    /// The elements in row-major order.
    pub bytes: Vec<u8>,
}

/// A number that changes with tensors: FNV-1a of dtypes, sizes and bytes.
pub fn hash_of<'a>(arrays: impl IntoIterator<Item = &'a Array>) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut mix = |bytes: &[u8]| {
        for &byte in bytes {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for array in arrays {
        mix(array.dtype.as_str().as_bytes());
        for size in &array.dims {
            mix(&(*size as u64).to_le_bytes());
        }
        mix(&array.bytes);
    }
    hash
}

impl Array {
    /// A copy of a tensor on any device.
    pub fn of(tensor: &Tensor) -> candle_core::Result<Array> {
        fn bytes<T: WithDType, const N: usize>(
            tensor: &Tensor,
            of: fn(T) -> [u8; N],
        ) -> candle_core::Result<Vec<u8>> {
            Ok(tensor.to_vec1::<T>()?.into_iter().flat_map(of).collect())
        }
        let flat = tensor.to_device(&Device::Cpu)?.flatten_all()?;
        let bytes = match tensor.dtype() {
            DType::U8 => bytes(&flat, u8::to_le_bytes),
            DType::U32 => bytes(&flat, u32::to_le_bytes),
            DType::I16 => bytes(&flat, i16::to_le_bytes),
            DType::I32 => bytes(&flat, i32::to_le_bytes),
            DType::I64 => bytes(&flat, i64::to_le_bytes),
            DType::BF16 => bytes(&flat, bf16::to_le_bytes),
            DType::F16 => bytes(&flat, f16::to_le_bytes),
            DType::F32 => bytes(&flat, f32::to_le_bytes),
            DType::F64 => bytes(&flat, f64::to_le_bytes),
            DType::F8E4M3 => bytes(&flat, |x: F8E4M3| [x.to_bits()]),
            other => candle_core::bail!("results of {other:?} are not recorded"),
        }?;
        Ok(Array {
            dtype: tensor.dtype(),
            dims: tensor.dims().to_vec(),
            bytes,
        })
    }

    /// The elements, exactly.
    pub fn numbers(&self) -> Numbers {
        fn each<const N: usize, T>(bytes: &[u8], of: impl Fn([u8; N]) -> T) -> Vec<T> {
            let elements = bytes.chunks_exact(N);
            let array = |chunk: &[u8]| <[u8; N]>::try_from(chunk).expect("N bytes");
            elements.map(|chunk| of(array(chunk))).collect()
        }
        let bytes = &self.bytes;
        match self.dtype {
            DType::U8 => Numbers::Integers(each(bytes, |b| u8::from_le_bytes(b).into())),
            DType::U32 => Numbers::Integers(each(bytes, |b| u32::from_le_bytes(b).into())),
            DType::I16 => Numbers::Integers(each(bytes, |b| i16::from_le_bytes(b).into())),
            DType::I32 => Numbers::Integers(each(bytes, |b| i32::from_le_bytes(b).into())),
            DType::I64 => Numbers::Integers(each(bytes, i64::from_le_bytes)),
            DType::BF16 => Numbers::Floats(each(bytes, |b| bf16::from_le_bytes(b).to_f64())),
            DType::F16 => Numbers::Floats(each(bytes, |b| f16::from_le_bytes(b).to_f64())),
            DType::F32 => Numbers::Floats(each(bytes, |b| f32::from_le_bytes(b).into())),
            DType::F64 => Numbers::Floats(each(bytes, f64::from_le_bytes)),
            // `Array::of` and `dtype_of` let no other in.
            _ => Numbers::Floats(each(bytes, |b: [u8; 1]| float_of_eight_bits(b[0]))),
        }
    }
}

/// What a case gave: its result, or the error with which the backend refused it.
pub type Outcome = std::result::Result<Array, String>;

/// All results of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// What ran: the package's name, and the device's.
    pub about: BTreeMap<String, String>,
    /// Of each case by name.
    pub outcomes: BTreeMap<String, Outcome>,
    /// A number that changes with the inputs of a case, by name.
    pub inputs: BTreeMap<String, String>,
}

/// Metadata of a case that was refused begins with this, of a case's inputs with the other.
const REFUSED: &str = "refused: ";
const INPUTS: &str = "inputs: ";

const DTYPES: [(DType, Dtype); 10] = [
    (DType::U8, Dtype::U8),
    (DType::U32, Dtype::U32),
    (DType::I16, Dtype::I16),
    (DType::I32, Dtype::I32),
    (DType::I64, Dtype::I64),
    (DType::BF16, Dtype::BF16),
    (DType::F16, Dtype::F16),
    (DType::F32, Dtype::F32),
    (DType::F64, Dtype::F64),
    (DType::F8E4M3, Dtype::F8_E4M3),
];

/// An array with its dtype as safetensors names it.
struct Stored<'a>(&'a Array, Dtype);

impl View for Stored<'_> {
    fn dtype(&self) -> Dtype {
        self.1
    }
    fn shape(&self) -> &[usize] {
        &self.0.dims
    }
    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.0.bytes)
    }
    fn data_len(&self) -> usize {
        self.0.bytes.len()
    }
}

impl Recording {
    /// The file's bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut metadata: HashMap<String, String> = self.about.clone().into_iter().collect();
        let mut tensors = Vec::new();
        for (name, outcome) in &self.outcomes {
            match outcome {
                Ok(array) => {
                    let stored = DTYPES.iter().find(|(dtype, _)| *dtype == array.dtype);
                    let (_, stored) = stored.with_context(|| format!("{:?}", array.dtype))?;
                    tensors.push((name.clone(), Stored(array, *stored)));
                }
                Err(error) => {
                    metadata.insert(format!("{REFUSED}{name}"), error.clone());
                }
            }
        }
        for (name, inputs) in &self.inputs {
            metadata.insert(format!("{INPUTS}{name}"), inputs.clone());
        }
        Ok(safetensors::serialize(tensors, Some(metadata))?)
    }

    /// What [`Recording::to_bytes`] wrote.
    pub fn from_bytes(bytes: &[u8]) -> Result<Recording> {
        let (_, metadata) = SafeTensors::read_metadata(bytes)?;
        let mut recording = Recording::default();
        for (key, value) in metadata.metadata().iter().flatten() {
            let value = value.clone();
            if let Some(name) = key.strip_prefix(REFUSED) {
                recording.outcomes.insert(name.to_owned(), Err(value));
            } else if let Some(name) = key.strip_prefix(INPUTS) {
                recording.inputs.insert(name.to_owned(), value);
            } else {
                recording.about.insert(key.clone(), value);
            }
        }
        for (name, view) in SafeTensors::deserialize(bytes)?.iter() {
            let Some((dtype, _)) = DTYPES.iter().find(|(_, stored)| *stored == view.dtype()) else {
                bail!("{name}: results of {:?} are not recorded", view.dtype());
            };
            let array = Array {
                dtype: *dtype,
                dims: view.shape().to_vec(),
                bytes: view.data().to_vec(),
            };
            recording.outcomes.insert(name.to_owned(), Ok(array));
        }
        Ok(recording)
    }

    /// Writes a file, compressed if its name ends in `.zst`; an error in programs built without the feature `zstd`.
    pub fn save(&self, path: &Path) -> Result<()> {
        let mut bytes = self.to_bytes()?;
        if is_compressed(path) {
            bytes = compressed(&bytes)?;
        }
        std::fs::write(path, bytes).with_context(|| path.display().to_string())
    }

    /// Reads a file that [`Recording::save`] wrote.
    pub fn load(path: &Path) -> Result<Recording> {
        let context = || path.display().to_string();
        let mut bytes = std::fs::read(path).with_context(context)?;
        if is_compressed(path) {
            bytes = decompressed(&bytes).with_context(context)?;
        }
        let recording = Recording::from_bytes(&bytes).with_context(context)?;
        ensure!(
            !recording.about.is_empty(),
            "{}: not a recording of parity: it does not say what made it",
            path.display()
        );
        Ok(recording)
    }

    /// One line: program and device.
    pub fn title(&self) -> String {
        let about = |key: &str| self.about.get(key).map_or("?", String::as_str);
        format!("{} on {}", about("program"), about("device"))
    }
}

#[cfg(feature = "zstd")]
fn compressed(bytes: &[u8]) -> Result<Vec<u8>> {
    Ok(zstd::encode_all(bytes, 19)?)
}

#[cfg(feature = "zstd")]
fn decompressed(bytes: &[u8]) -> Result<Vec<u8>> {
    Ok(zstd::decode_all(bytes)?)
}

#[cfg(not(feature = "zstd"))]
fn compressed(_: &[u8]) -> Result<Vec<u8>> {
    bail!("built without zstd: give the file a name that does not end in .zst")
}

#[cfg(not(feature = "zstd"))]
fn decompressed(_: &[u8]) -> Result<Vec<u8>> {
    bail!("built without zstd: decompress the file first")
}

fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "zst")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_hold_what_was_recorded() -> Result<()> {
        let mut recording = Recording::default();
        recording.about.insert("device".into(), "a GPU".into());
        for dtype in crate::numbers::all_dtypes() {
            let numbers = Numbers::any(dtype, 1, 60).held(dtype);
            let array = Array::of(&numbers.tensor(dtype, &[5, 12])?)?;
            assert_eq!(array.numbers(), numbers, "{dtype:?}");
            recording.outcomes.insert(format!("{dtype:?}"), Ok(array));
        }
        recording
            .outcomes
            .insert("no kernel".into(), Err("none".into()));
        recording.inputs.insert("F32".into(), "17".into());
        let folder = std::env::temp_dir();
        let path = folder.join(format!("parity-{}.safetensors.zst", std::process::id()));
        recording.save(&path)?;
        let read = Recording::load(&path);
        std::fs::remove_file(&path)?;
        assert_eq!(read?, recording);
        Ok(())
    }
}
