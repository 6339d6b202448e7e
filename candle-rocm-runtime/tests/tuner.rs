//! Choosing products by timing them, on an emulated GPU: what is kept in the file, read back, ignored; and that results are
//! those of one product, whatever ran beside it.

mod common;

use std::path::Path;
use std::sync::Arc;

use candle_rocm_runtime::cuda_names::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use candle_rocm_runtime::gemm::{self, library, tune, GemmDtype, GemmProblem, Transpose};
use candle_rocm_runtime::{DeviceBuffer, DevicePtr, DevicePtrMut, Stream};
use common::{context, in_process, StandIn};

const SIZE: usize = 96;
/// What C is before, and its factor.
const BEFORE: f32 = 8.0;
const BETA: f32 = 0.5;

/// Square matrices of small integers, whose product is exact in any order.
struct Square {
    a: DeviceBuffer<f32>,
    b: DeviceBuffer<f32>,
    c: DeviceBuffer<f32>,
}

fn number(i: usize) -> f32 {
    (i * 7 % 11) as f32 - 5.0
}

impl Square {
    fn new(stream: &Arc<Stream>) -> Self {
        let numbers = |start| -> Vec<f32> { (0..SIZE * SIZE).map(|i| number(i + start)).collect() };
        Self {
            a: stream.clone_htod(&numbers(0)).unwrap(),
            b: stream.clone_htod(&numbers(3)).unwrap(),
            c: stream.clone_htod(&vec![BEFORE; SIZE * SIZE]).unwrap(),
        }
    }

    fn multiply(&mut self, stream: &Arc<Stream>) {
        let problem = GemmProblem {
            transa: Transpose::No,
            transb: Transpose::Yes,
            m: SIZE,
            n: SIZE,
            k: SIZE,
            alpha: 1.0,
            a: self.a.device_ptr(stream).0,
            lda: SIZE,
            stride_a: 0,
            b: self.b.device_ptr(stream).0,
            ldb: SIZE,
            stride_b: 0,
            beta: BETA.into(),
            c: self.c.device_ptr_mut(stream).0,
            ldc: SIZE,
            stride_c: 0,
            batch: 1,
            dtype: GemmDtype::F32,
            compute: GemmDtype::F32.compute(),
        };
        // SAFETY: the buffers hold the matrices.
        unsafe { gemm::gemm_strided_batched(stream, &problem) }.unwrap();
    }

    /// Multiplies once, and checks that C was written once.
    fn check(stream: &Arc<Stream>) {
        let mut square = Self::new(stream);
        square.multiply(stream);
        square.check_result(stream);
    }

    fn check_result(&self, stream: &Arc<Stream>) {
        let c = stream.clone_dtoh(&self.c).unwrap();
        for column in 0..SIZE {
            for row in 0..SIZE {
                let sum: f32 = (0..SIZE)
                    .map(|l| number(l * SIZE + row) * number(l * SIZE + column + 3))
                    .sum();
                assert_eq!(
                    c[column * SIZE + row],
                    sum + BETA * BEFORE,
                    "({row}, {column})"
                );
            }
        }
    }
}

/// Runs `body` in a process of its own with these variables: in the test itself it spawns the process, for which
/// `step` says which of the test's bodies is meant.
fn step(
    test: &str,
    step: &str,
    file: &Path,
    tune: &str,
    more: &[(&str, &str)],
    body: impl FnOnce(),
) {
    const STEP: &str = "CANDLE_ROCM_TEST_STEP";
    match std::env::var(STEP) {
        Ok(now) if now == step => in_process(test, &[], body),
        Ok(_) => {}
        Err(_) => {
            let mut variables = vec![
                (STEP, step),
                ("ROCM_EMU_ARCH", "gfx1100"),
                (tune::TUNE_VARIABLE, tune),
                (tune::FILE_VARIABLE, file.to_str().unwrap()),
                (library::GEMM_VARIABLE, ""),
                (library::LIBRARY_VARIABLE, ""),
            ];
            variables.extend(more);
            in_process(test, &variables, || {
                unreachable!("it is a process of its own")
            });
        }
    }
}

/// The lines of results, in fields.
fn lines(file: &Path) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(file).unwrap();
    let fields = |line: &str| line.split('\t').map(str::to_owned).collect();
    text.lines().skip(1).map(fields).collect()
}

/// Replaces a field of the one line.
fn set(file: &Path, field: usize, value: &str) {
    let text = std::fs::read_to_string(file).unwrap();
    let mut line = lines(file).remove(0);
    value.clone_into(&mut line[field]);
    let header = text.lines().next().unwrap();
    std::fs::write(file, format!("{header}\n{}\n", line.join("\t"))).unwrap();
}

fn choices(stream: &Stream) -> Vec<String> {
    let choices = tune::choices(stream).unwrap();
    choices.into_iter().map(|(_, choice)| choice).collect()
}

#[test]
fn the_fastest_is_kept_and_read_back() {
    const TEST: &str = "the_fastest_is_kept_and_read_back";
    let folder = tempfile::tempdir().unwrap();
    let file = &folder.path().join("new").join("gemm.tsv");
    step(TEST, "measure", file, "1", &[], || {
        let file = std::env::var(tune::FILE_VARIABLE).unwrap();
        let stream = context().default_stream();
        Square::check(&stream);
        let kept = lines(Path::new(&file));
        assert_eq!(kept.len(), 1, "{kept:?}");
        assert!(kept[0][0].contains("gfx1100"), "{kept:?}");
        assert!(kept[0][2].starts_with("gemm_f32_"), "{kept:?}");
        assert_eq!(choices(&stream), [kept[0][2].clone()]);
        // Once is enough.
        let before = std::fs::metadata(&file).unwrap().modified().unwrap();
        Square::check(&stream);
        assert_eq!(
            std::fs::metadata(&file).unwrap().modified().unwrap(),
            before
        );
    });
    let is_parent = file.exists();
    let choice = "gemm_f32_128x128_nt splits 1";
    if is_parent {
        set(file, 2, choice);
    }
    for tune in ["1", "use"] {
        step(TEST, &format!("read by {tune}"), file, tune, &[], || {
            let stream = context().default_stream();
            Square::check(&stream);
            assert_eq!(choices(&stream), [choice]);
        });
    }
    if is_parent {
        assert_eq!(lines(file).len(), 1);
        set(file, 0, "another GPU");
    }
    step(TEST, "another GPU's", file, "use", &[], || {
        let stream = context().default_stream();
        Square::check(&stream);
        assert_eq!(choices(&stream), [""; 0]);
    });
    step(TEST, "beside another GPU's", file, "1", &[], || {
        let stream = context().default_stream();
        Square::check(&stream);
        assert_eq!(choices(&stream).len(), 1);
    });
    if is_parent {
        let kept = lines(file);
        assert_eq!(kept.len(), 2, "{kept:?}");
        assert!(kept.iter().any(|line| line[0] == "another GPU"));
    }
}

#[test]
fn a_damaged_file_is_put_aside() {
    const TEST: &str = "a_damaged_file_is_put_aside";
    let folder = tempfile::tempdir().unwrap();
    let file = &folder.path().join("gemm.tsv");
    std::fs::write(file, "{\"not\": ours").unwrap();
    for (name, tune) in [("use", "use"), ("measure", "1")] {
        step(TEST, name, file, tune, &[], || {
            Square::check(&context().default_stream());
        });
    }
    let aside = folder.path().join("gemm.tsv.damaged");
    if aside.exists() {
        assert_eq!(std::fs::read_to_string(aside).unwrap(), "{\"not\": ours");
        assert_eq!(lines(file).len(), 1);
    } else {
        // In a step's process, which has a folder of its own.
        assert!(std::env::var_os("CANDLE_ROCM_TEST_STEP").is_some());
    }
}

#[test]
fn nothing_is_timed_in_a_capture() {
    const TEST: &str = "nothing_is_timed_in_a_capture";
    let folder = tempfile::tempdir().unwrap();
    let file = &folder.path().join("gemm.tsv");
    step(TEST, "capture", file, "1", &[], || {
        let file = std::env::var(tune::FILE_VARIABLE).unwrap();
        let stream = context().new_stream().unwrap();
        let mut square = Square::new(&stream);
        stream
            .begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
            .unwrap();
        square.multiply(&stream);
        let graph = stream
            .end_capture(CUgraphInstantiate_flags::default())
            .unwrap()
            .unwrap();
        assert!(!Path::new(&file).exists());
        assert_eq!(choices(&stream), [""; 0]);
        graph.launch().unwrap();
        square.check_result(&stream);
        // Afterwards it is.
        Square::check(&stream);
        assert_eq!(choices(&stream).len(), 1);
    });
}

#[test]
fn a_library_is_timed_too() {
    const TEST: &str = "a_library_is_timed_too";
    let folder = tempfile::tempdir().unwrap();
    let file = &folder.path().join("gemm.tsv");
    let named = [(library::LIBRARY_VARIABLE, "")];
    let path = common::shared_library(folder.path(), "blas.c", "-DROCBLAS");
    let named = named.map(|(name, _)| (name, path.to_str().unwrap()));
    step(TEST, "measure", file, "1", &named, || {
        let stream = context().default_stream();
        Square::check(&stream);
        assert!(products() > 1, "the library was not timed");
        assert_eq!(choices(&stream).len(), 1);
    });
    let is_parent = file.exists();
    if is_parent {
        assert!(lines(file)[0][0].contains("rocBLAS"));
    }
    for (choice, expected) in [("library", 1), ("gemm_f32_64x64_nt splits 1", 0)] {
        if is_parent {
            set(file, 2, choice);
        }
        step(TEST, choice, file, "use", &named, || {
            let stream = context().default_stream();
            Square::check(&stream);
            assert_eq!(choices(&stream), [choice]);
            assert_eq!(products(), expected);
        });
    }
    // Where nothing is known the default multiplies, which is ours.
    if is_parent {
        std::fs::remove_file(file).unwrap();
    }
    step(TEST, "unknown", file, "use", &named, || {
        Square::check(&context().default_stream());
        assert_eq!(products(), 0);
    });
    let own = [named[0], (library::GEMM_VARIABLE, "own")];
    step(TEST, "own", file, "1", &own, || {
        Square::check(&context().default_stream());
        assert!(choices(&context().default_stream())[0].starts_with("gemm_f32_"));
    });
}

/// The products that the stand-in was asked for.
fn products() -> i32 {
    let path = std::env::var(library::LIBRARY_VARIABLE).unwrap();
    StandIn::<[i32; 6]>::load(path).counts()[4]
}

#[test]
fn a_senseless_choice_is_named() {
    const TEST: &str = "a_senseless_choice_is_named";
    let folder = tempfile::tempdir().unwrap();
    let file = &folder.path().join("gemm.tsv");
    step(TEST, "senseless", file, "fast", &[], || {
        let error = tune::choices(&context().default_stream()).unwrap_err();
        assert!(
            error.to_string().contains("CANDLE_ROCM_GEMM_TUNE=fast"),
            "{error}"
        );
    });
}
