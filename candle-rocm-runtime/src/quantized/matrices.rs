//! Products of quantised matrices with matrices (prompts): module `mmq`, or where there are many vectors, in bf16, `upcast`
//! and `matmul`.
//!
//! The products read the vectors' scales and add up the bytes themselves, so a sum beyond f16 does no harm; a scale below
//! f16's range (activations all smaller than 4e-6, in `DS4` and `D2S6`) loses its elements, as on CUDA. An infinite
//! or NaN activation makes its column's results NaN.

use candle_rocm_kernels::gguf::Format;
use candle_rocm_kernels::{mmq, MMQ};

use super::launches::{launch, Name};
use super::matrix_product::{Checked, MatrixProduct};
use super::strips::{self, Strip};
use super::upcast;
use crate::base::error::{Error, Result};
use crate::plan_cache;
use crate::stream::queue::Stream;

/// Results that there is room for in the workspace.
const WORKSPACE: u64 = 1 << 22;

plan_cache!(
    /// By k, rows, columns, compute units, and whether there is a workspace.
    static STRIPS: [u32; 5] => Vec<Strip>
);

/// Gives the product to the stream.
///
/// # Safety
/// The addresses are those of device memory as described, which nothing else uses until the stream has come so far.
///
/// # Errors
/// An argument makes no sense, which is named; a kernel cannot be launched.
pub unsafe fn multiply_matrices(
    stream: &Stream,
    format: &'static Format,
    product: &MatrixProduct,
) -> Result<()> {
    let Some(checked) = Checked::of(format, product)? else {
        return Ok(());
    };
    if checked.k > 0 && upcast::pays(stream.context().info().processor, checked.columns) {
        // SAFETY: the caller's promise.
        if unsafe { upcast::multiply(stream, &checked) }? {
            return Ok(());
        }
    }
    let units = u32::try_from(product.nsm).unwrap_or(0).max(1);
    let room = if product.tmp_fixup == 0 { 0 } else { WORKSPACE };
    let key = [
        checked.k,
        checked.rows,
        checked.columns,
        units,
        u32::from(room > 0),
    ];
    let make = || {
        let [k, rows, columns, units, _] = key;
        Ok::<_, Error>(strips::plan(k, rows, columns, units, room))
    };
    let strips = STRIPS.get_or_make(stream.context().device(), &key, make)?;
    for strip in strips.iter() {
        // SAFETY: the caller's promise, and the strip's splits fit into the workspace.
        unsafe { multiply_strip(stream, &checked, strip, product.tmp_fixup) }?;
    }
    Ok(())
}

/// Multiplies a strip, and adds up its splits of k, if there are several, by way of the workspace.
///
/// # Safety
/// As [`multiply_matrices`], and the splits' results fit into the workspace.
unsafe fn multiply_strip(
    stream: &Stream,
    product: &Checked,
    strip: &Strip,
    workspace: u64,
) -> Result<()> {
    let Checked {
        activations,
        k,
        columns,
        row_bytes,
        dst_rows,
        ..
    } = *product;
    let splits = k.div_ceil(strip.k_per_split).max(1);
    let weights = product.weights + u64::from(strip.first) * row_bytes;
    let output = product.output + 4 * u64::from(strip.first);
    let results = u64::from(strip.rows) * u64::from(columns);
    let (target, target_rows) = match splits {
        1 => (output, dst_rows),
        _ => (workspace, u64::from(strip.rows)),
    };
    let grid = (
        strip.rows.div_ceil(mmq::TILE_ROWS),
        columns.div_ceil(strip.tile).min(mmq::MOST_WORKGROUPS),
        splits,
    );
    // SAFETY: the kernel's arguments, as the contract test has them, for memory that the caller promises.
    unsafe {
        launch!(
            stream,
            &MMQ,
            Name(["mmq", product.format.name, ""], strip.tile),
            grid,
            mmq::THREADS,
            [
                weights,
                activations,
                target,
                k,
                strip.rows,
                columns,
                row_bytes,
                target_rows,
                strip.k_per_split,
                results
            ]
        )
    }?;
    if splits == 1 {
        return Ok(());
    }
    let grid = (results.div_ceil(mmq::THREADS.into()) as u32, 1, 1);
    // SAFETY: likewise, of sums that the launch before leaves in the workspace.
    unsafe {
        launch!(
            stream,
            &MMQ,
            Name::whole("mmq_sum"),
            grid,
            mmq::THREADS,
            [target, output, strip.rows, columns, dst_rows, splits, results]
        )
    }
}
