//! What the programs share: random weights, and how far a GPU's numbers are from the CPU's.

use std::collections::HashMap;

use anyhow::{ensure, Context, Result};
use candle_core::{DType, Device, Tensor};
use candle_nn::{VarBuilder, VarMap};

/// Numbers from -1 to 1, the same in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f32 {
        // Knuth's constants; the upper bits are the good ones.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}

/// A model on the CPU and the same on the GPU, of random weights. `make` asks for what it needs.
pub fn on_both<M>(make: impl Fn(VarBuilder, &Device) -> Result<M>) -> Result<(M, M)> {
    // First for the weights' names and shapes.
    let asked = VarMap::new();
    make(
        VarBuilder::from_varmap(&asked, DType::F32, &Device::Cpu),
        &Device::Cpu,
    )?;
    let weights = random_like(&asked)?;
    let on = |device: &Device| {
        make(
            VarBuilder::from_tensors(weights.clone(), DType::F32, device),
            device,
        )
    };
    let gpu = Device::new_cuda(0)?;
    Ok((on(&Device::Cpu)?, on(&gpu)?))
}

fn random_like(asked: &VarMap) -> Result<HashMap<String, Tensor>> {
    let asked = asked
        .data()
        .lock()
        .ok()
        .context("nobody panicked with it")?;
    let mut names: Vec<&String> = asked.keys().collect();
    names.sort();
    let mut random = Random(1);
    let mut weights = HashMap::new();
    for name in names {
        let shape = asked[name].shape();
        // Sums of products stay about 1. Vectors are factors of norms, about 1, and what is added, about 0.
        let (middle, width) = match shape.dims() {
            [_] if name.ends_with("weight") => (1.0, 0.2),
            [_] => (0.0, 0.2),
            dims => (0.0, (3.0 / dims[dims.len() - 1] as f32).sqrt()),
        };
        let values = (0..shape.elem_count()).map(|_| middle + width * random.next());
        let values: Vec<f32> = values.collect();
        weights.insert(
            name.clone(),
            Tensor::from_vec(values, shape.clone(), &Device::Cpu)?,
        );
    }
    Ok(weights)
}

/// The largest difference of numbers, which must be finite, as many, and not all the same.
pub fn apart(cpu: &[f32], gpu: &[f32]) -> Result<f32> {
    ensure!(
        cpu.len() == gpu.len(),
        "{} numbers, and {} on the GPU",
        cpu.len(),
        gpu.len()
    );
    ensure!(
        cpu.iter().any(|value| *value != cpu[0]),
        "all numbers are the same"
    );
    ensure!(
        cpu.iter().chain(gpu).all(|value| value.is_finite()),
        "a number is not finite"
    );
    let apart = cpu.iter().zip(gpu).map(|(cpu, gpu)| (cpu - gpu).abs());
    Ok(apart.fold(0.0, f32::max))
}

/// Says how far off it is; an error if too far.
pub fn hold(what: &str, worst: f32, tolerance: f32) -> Result<()> {
    println!("{what}: at most {worst:.1e} off the CPU's, of {tolerance:.0e} that are allowed");
    ensure!(worst <= tolerance, "{what} is not as on the CPU");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::apart;

    #[test]
    fn what_is_not_finite_is_no_result() {
        assert_eq!(apart(&[0.0, 1.0], &[0.0, 1.5]).unwrap(), 0.5);
        assert!(apart(&[0.0, 1.0], &[0.0, f32::NAN]).is_err());
        assert!(apart(&[0.0, 1.0], &[f32::NAN, 1.0]).is_err());
        assert!(apart(&[1.0, 1.0], &[1.0, 1.0]).is_err());
    }
}
