use candle_rocm_kernel_report::device::Device;
use candle_rocm_kernel_report::scaled;
use candle_rocm_kernels::grouped::{ALONG_K, TILES};

#[test]
fn tiles_of_64_columns() {
    for arch in ["gfx942", "gfx90a", "gfx1100", "gfx1201", "gfx1030"] {
        let mut device = Device::new(arch.parse().unwrap());
        for n in [32, 64, 128] {
            for tile in [TILES[0], ALONG_K, TILES[1]] {
                let shape = scaled::Shape { m: 24576, n, k: 1536, tile, transposed: [true, false], is_special: false };
                match scaled::time(&mut device, &shape) {
                    Ok((kernel, time)) => println!("{arch} {n} {kernel} {:.1} us, matrix {:.2} memory {:.2} lds {:.2}", time.microseconds, time.matrix, time.memory, time.lds),
                    Err(error) => println!("{arch} {n} {error:#}"),
                }
            }
        }
    }
}
