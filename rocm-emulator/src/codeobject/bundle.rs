//! Clang's offload bundles: several code objects, one per processor, in one file.
//!
//! The layout is clang's "ClangOffloadBundler" document: a magic string, a count, then for each entry
//! its offset, size and id (`hipv4-amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-`). A compressed bundle is the
//! same behind a `CCOB` header.

use std::borrow::Cow;
use std::io::Read;

use super::CodeObjectError;
use crate::isa::Target;

const MAGIC: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";
const COMPRESSED_MAGIC: &[u8] = b"CCOB";
const ELF_MAGIC: &[u8] = b"\x7fELF";
/// Refuse to decompress more than this.
const MAX_DECOMPRESSED: u64 = 4 << 30;
/// No bundle has more entries or longer ids; corrupt counts do.
const MAX_ENTRIES: u64 = 4096;

/// One code object of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The id as written: offload kind, triple and processor with its features.
    pub id: Cow<'a, str>,
    /// The bytes; empty for the host.
    pub bytes: &'a [u8],
}

impl Entry<'_> {
    /// The processor without its feature qualifiers, such as `gfx942`; `None` for the host's entry.
    pub fn processor(&self) -> Option<&str> {
        let (kind, rest) = self.id.split_once('-')?;
        if !matches!(kind, "hip" | "hipv4") {
            return None;
        }
        let at = rest.find("gfx")?;
        rest[at..].split(':').next()
    }
}

/// True for a plain or compressed bundle.
pub fn is_bundle(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC) || bytes.starts_with(COMPRESSED_MAGIC)
}

/// The code object for `target`: `bytes` itself when it is an ELF file, or the bundle's entry for that
/// processor, whatever its `:xnack` and `:sramecc` qualifiers, else that for the generic target that covers it.
///
/// # Errors
/// When the bytes are neither, end too early, or hold no entry for the target (the error lists those there are).
pub fn select(bytes: &[u8], target: Target) -> Result<Cow<'_, [u8]>, CodeObjectError> {
    let bytes = decompress(bytes)?;
    if !bytes.starts_with(MAGIC) {
        return Ok(bytes);
    }
    let generic = target.facts().generic.map(|generic| generic.name());
    let range = {
        let entries = entries(&bytes)?;
        let found = entries
            .iter()
            .find(|entry| entry.processor() == Some(target.name()))
            .or_else(|| {
                let generic = generic?;
                entries
                    .iter()
                    .find(|entry| entry.processor() == Some(generic))
            });
        let Some(entry) = found else {
            let ids: Vec<&str> = entries.iter().map(|entry| &*entry.id).collect();
            return Err(CodeObjectError::NotInBundle {
                expected: target,
                entries: ids.join(", "),
            });
        };
        let start = entry.bytes.as_ptr() as usize - bytes.as_ptr() as usize;
        start..start + entry.bytes.len()
    };
    Ok(match bytes {
        Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[range]),
        Cow::Owned(bytes) => Cow::Owned(bytes[range].to_vec()),
    })
}

/// The entries of an uncompressed bundle.
///
/// # Errors
/// When the table or an entry reaches past the end.
pub fn entries(bytes: &[u8]) -> Result<Vec<Entry<'_>>, CodeObjectError> {
    let mut at = MAGIC.len();
    let count = number(bytes, &mut at, 8, "bundle header")?;
    if count > MAX_ENTRIES {
        return Err(CodeObjectError::Malformed(format!(
            "offload bundle of {count} entries"
        )));
    }
    let mut entries = Vec::new();
    for _ in 0..count {
        let offset = number(bytes, &mut at, 8, "bundle entry")?;
        let size = number(bytes, &mut at, 8, "bundle entry")?;
        let length = number(bytes, &mut at, 8, "bundle entry")?;
        let id = slice(bytes, at as u64, length, "bundle entry id")?;
        at += id.len();
        let id = String::from_utf8_lossy(id);
        let bytes = slice(bytes, offset, size, &id)?;
        entries.push(Entry { id, bytes });
    }
    Ok(entries)
}

/// Undo the compression of a `CCOB` bundle; anything else comes back as it is.
///
/// # Errors
/// When the header is cut off, the method is not zstd, or the data is corrupt.
pub fn decompress(bytes: &[u8]) -> Result<Cow<'_, [u8]>, CodeObjectError> {
    if !bytes.starts_with(COMPRESSED_MAGIC) {
        return Ok(Cow::Borrowed(bytes));
    }
    let header = CompressedHeader::read(bytes)?;
    let end = match header.total {
        Some(total) => slice(bytes, 0, total, "compressed bundle")?.len(),
        None => bytes.len(),
    };
    let data = bytes.get(header.data..end).unwrap_or_default();
    if header.method != 1 {
        return Err(CodeObjectError::Compression(format!(
            "method {} is not supported, only zstd (1); compile with -no-offload-compress or clang 18 or later",
            header.method
        )));
    }
    if header.uncompressed > MAX_DECOMPRESSED {
        return Err(CodeObjectError::Compression(format!(
            "{} bytes when decompressed",
            header.uncompressed
        )));
    }
    let failed = |error: std::io::Error| CodeObjectError::Compression(error.to_string());
    let mut plain = Vec::new();
    zstd::Decoder::new(data)
        .map_err(failed)?
        .take(header.uncompressed)
        .read_to_end(&mut plain)
        .map_err(failed)?;
    if plain.len() as u64 != header.uncompressed {
        return Err(CodeObjectError::Truncated {
            what: "decompressed bundle".into(),
            need: header.uncompressed,
            have: plain.len() as u64,
        });
    }
    Ok(Cow::Owned(plain))
}

struct CompressedHeader {
    method: u64,
    /// Bytes of the file, header included; version 1 does not say.
    total: Option<u64>,
    uncompressed: u64,
    /// Bytes before the compressed data.
    data: usize,
}

impl CompressedHeader {
    fn read(bytes: &[u8]) -> Result<CompressedHeader, CodeObjectError> {
        let mut at = COMPRESSED_MAGIC.len();
        let what = "compressed bundle header";
        let version = number(bytes, &mut at, 2, what)?;
        let method = number(bytes, &mut at, 2, what)?;
        // Version 2 added the file's size, version 3 widened both sizes.
        let (has_total, width) = match version {
            1 => (false, 4),
            2 => (true, 4),
            3 => (true, 8),
            _ => {
                return Err(CodeObjectError::Compression(format!(
                    "header version {version} is not 1, 2 or 3"
                )))
            }
        };
        let total = match has_total {
            true => Some(number(bytes, &mut at, width, what)?),
            false => None,
        };
        let uncompressed = number(bytes, &mut at, width, what)?;
        let _hash = number(bytes, &mut at, 8, what)?;
        Ok(CompressedHeader {
            method,
            total,
            uncompressed,
            data: at,
        })
    }
}

/// How many bytes a code object or bundle has, read from its own headers: the HIP functions that load a module from
/// memory are given no size. `read` gives so many bytes of it from an offset on.
///
/// # Errors
/// When the bytes there are no code object or bundle, or a version 1 compressed bundle, which does not say; and those of
/// `read`, since headers of what is not whole may announce bytes that are not there.
pub fn size_of_image(
    read: impl Fn(u64, usize) -> Result<Vec<u8>, CodeObjectError>,
) -> Result<usize, CodeObjectError> {
    let bytes = |offset: u64, count: u64| Ok(Cow::Owned(read(offset, count as usize)?));
    let size = image_size(&bytes)?
        .ok_or_else(|| CodeObjectError::Compression("version 1 does not record its size".into()))?;
    usize::try_from(size)
        .ok()
        .filter(|size| *size as u64 <= MAX_DECOMPRESSED)
        .ok_or_else(|| CodeObjectError::Malformed(format!("image of {size} bytes")))
}

/// The code objects and bundles that lie one after the other in a section of a program, with zeroes between them: clang
/// makes one for each source file.
///
/// # Errors
/// When something else lies there, or one reaches past the section's end.
pub fn images(section: &[u8]) -> Result<Vec<&[u8]>, CodeObjectError> {
    let mut images = Vec::new();
    let mut rest = section;
    while let Some(start) = rest.iter().position(|&byte| byte != 0) {
        rest = &rest[start..];
        let what = "image in the program";
        let image = |offset, count| Ok(Cow::Borrowed(slice(rest, offset, count, what)?));
        let size = match image_size(&image)? {
            Some(size) => slice(rest, 0, size, what)?.len(),
            None => next_image(rest),
        };
        images.push(&rest[..size]);
        rest = &rest[size..];
    }
    Ok(images)
}

/// Where the next bundle may begin after a compressed one that does not say how long it is: the linker aligns bundles to
/// pages.
fn next_image(bytes: &[u8]) -> usize {
    const PAGE: usize = 4096;
    let mut pages = (PAGE..bytes.len()).step_by(PAGE);
    pages
        .find(|&at| is_bundle(&bytes[at..]))
        .unwrap_or(bytes.len())
}

/// Gives some bytes of an image: an offset and a count.
type BytesAt<'i, 'b> = &'i dyn Fn(u64, u64) -> Result<Cow<'b, [u8]>, CodeObjectError>;

/// The size that an image's headers announce; `None` for a compressed bundle of version 1.
fn image_size(bytes: BytesAt) -> Result<Option<u64>, CodeObjectError> {
    let start = bytes(0, 8)?;
    if start.starts_with(ELF_MAGIC) {
        return elf_size(&bytes(0, 64)?, bytes).map(Some);
    }
    if start.starts_with(COMPRESSED_MAGIC) {
        return Ok(CompressedHeader::read(&bytes(0, 32)?)?.total);
    }
    if *start != MAGIC[..8] || *bytes(0, MAGIC.len() as u64)? != *MAGIC {
        let shown: Vec<String> = start.iter().map(|byte| format!("{byte:02x}")).collect();
        return Err(CodeObjectError::NotElf(shown.join(" ")));
    }
    let field = |at: u64| number(&bytes(at, 8)?, &mut 0, 8, "bundle header");
    let mut at = MAGIC.len() as u64;
    let count = field(at)?;
    at += 8;
    if count > MAX_ENTRIES {
        return Err(CodeObjectError::Malformed(format!(
            "offload bundle of {count} entries"
        )));
    }
    let mut size = at;
    for _ in 0..count {
        let (offset, bytes, length) = (field(at)?, field(at + 8)?, field(at + 16)?);
        if length > MAX_ENTRIES {
            return Err(CodeObjectError::Malformed(format!(
                "bundle entry id of {length} bytes"
            )));
        }
        at += 24 + length;
        size = size.max(at).max(offset.saturating_add(bytes));
    }
    Ok(Some(size))
}

/// The end of the last thing that the ELF header's tables mention.
fn elf_size(header: &[u8], bytes: BytesAt) -> Result<u64, CodeObjectError> {
    let what = "ELF header";
    let get = |bytes: &[u8], at: usize, width: usize| number(bytes, &mut { at }, width, what);
    // (offset of the table, entry size, entries, where an entry keeps offset and size, no-bits type at 4)
    let tables = [
        (
            get(header, 32, 8)?,
            get(header, 54, 2)?,
            get(header, 56, 2)?,
            8,
            32,
        ),
        (
            get(header, 40, 8)?,
            get(header, 58, 2)?,
            get(header, 60, 2)?,
            24,
            32,
        ),
    ];
    let mut size = 64;
    for (index, (offset, entry, count, offset_at, size_at)) in tables.into_iter().enumerate() {
        if count == 0 {
            continue;
        }
        let end = offset.saturating_add(entry * count);
        // Of 64-bit files, entries have 56 bytes of segments and 64 of sections.
        if end > MAX_DECOMPRESSED || !(56..=64).contains(&entry) {
            return Err(CodeObjectError::Malformed(format!(
                "ELF table of {count} entries of {entry} bytes at {offset:#x}"
            )));
        }
        size = size.max(end);
        for row in bytes(offset, entry * count)?.chunks_exact(entry as usize) {
            const SHT_NOBITS: u64 = 8;
            if index == 1 && get(row, 4, 4)? == SHT_NOBITS {
                continue;
            }
            size = size.max(get(row, offset_at, 8)?.saturating_add(get(row, size_at, 8)?));
        }
    }
    Ok(size)
}

/// A little-endian number of `width` bytes; moves `at` past it.
fn number(bytes: &[u8], at: &mut usize, width: usize, what: &str) -> Result<u64, CodeObjectError> {
    let field = slice(bytes, *at as u64, width as u64, what)?;
    *at += width;
    let mut value = [0; 8];
    value[..width].copy_from_slice(field);
    Ok(u64::from_le_bytes(value))
}

fn slice<'a>(
    bytes: &'a [u8],
    offset: u64,
    size: u64,
    what: &str,
) -> Result<&'a [u8], CodeObjectError> {
    let end = offset.saturating_add(size);
    if end > bytes.len() as u64 {
        return Err(CodeObjectError::Truncated {
            what: what.into(),
            need: end,
            have: bytes.len() as u64,
        });
    }
    Ok(&bytes[offset as usize..end as usize])
}
