//! YOLOv8, made of candle-nn's layers by its published description: candle-transformers has none. Batch norms are
//! folded into the convolutions, as users fold them for inference.

use candle_core::{DType, Device, Result, Tensor, D};
use candle_nn::{conv2d, Conv2d, Conv2dConfig, Func, VarBuilder};

/// What the sizes of YOLOv8 differ in.
pub struct Size {
    /// Channels at a half to a 32nd of the image.
    widths: [usize; 5],
    /// Bottlenecks of a stage; the two stages in the middle have twice as many.
    depth: usize,
    classes: usize,
}

/// YOLOv8s.
pub const SMALL: Size = Size {
    widths: [32, 64, 128, 256, 512],
    depth: 1,
    classes: 80,
};

/// For emulated GPUs.
pub const TINY: Size = Size {
    widths: [8, 8, 16, 16, 16],
    depth: 1,
    classes: 4,
};

/// Each side of a box is a distribution over so many distances.
const DISTANCES: usize = 16;
/// Pixels between neighbours of the three results.
const STRIDES: [f64; 3] = [8., 16., 32.];

type Builder = VarBuilder<'static>;
type Layer = Func<'static>;

fn padded(channels: [usize; 2], kernel: usize, stride: usize, vb: &Builder) -> Result<Conv2d> {
    let config = Conv2dConfig {
        padding: kernel / 2,
        stride,
        ..Conv2dConfig::default()
    };
    conv2d(channels[0], channels[1], kernel, config, vb.clone())
}

/// A convolution and SiLU.
fn convolution(channels: [usize; 2], kernel: usize, stride: usize, vb: Builder) -> Result<Layer> {
    let convolution = padded(channels, kernel, stride, &vb)?;
    Ok(Func::new(move |x| x.apply(&convolution)?.silu()))
}

/// Two convolutions, the input added where `is_residual`.
fn bottleneck(channels: usize, is_residual: bool, vb: Builder) -> Result<Layer> {
    let first = convolution([channels; 2], 3, 1, vb.pp("cv1"))?;
    let second = convolution([channels; 2], 3, 1, vb.pp("cv2"))?;
    Ok(Func::new(move |x| {
        let y = x.apply(&first)?.apply(&second)?;
        match is_residual {
            true => x + y,
            false => Ok(y),
        }
    }))
}

/// A chain of bottlenecks on half of the channels, all of whose results go on.
fn stage([from, to]: [usize; 2], count: usize, is_residual: bool, vb: Builder) -> Result<Layer> {
    let half = to / 2;
    let before = convolution([from, 2 * half], 1, 1, vb.pp("cv1"))?;
    let after = convolution([(2 + count) * half, to], 1, 1, vb.pp("cv2"))?;
    let links = (0..count).map(|i| bottleneck(half, is_residual, vb.pp("m").pp(i)));
    let links = links.collect::<Result<Vec<_>>>()?;
    Ok(Func::new(move |x| {
        let mut parts = x.apply(&before)?.chunk(2, 1)?;
        for link in &links {
            let next = parts[parts.len() - 1].contiguous()?.apply(link)?;
            parts.push(next);
        }
        Tensor::cat(&parts, 1)?.apply(&after)
    }))
}

/// Maxima over 5, 9 and 13 pixels beside what they are of.
fn pyramid(channels: usize, vb: Builder) -> Result<Layer> {
    const WINDOW: usize = 5;
    let half = channels / 2;
    let before = convolution([channels, half], 1, 1, vb.pp("cv1"))?;
    let after = convolution([4 * half, channels], 1, 1, vb.pp("cv2"))?;
    let pooled = |x: &Tensor| {
        // The nearest pixel, which each window over the edge has anyway.
        let x = x.pad_with_same(D::Minus1, WINDOW / 2, WINDOW / 2)?;
        let x = x.pad_with_same(D::Minus2, WINDOW / 2, WINDOW / 2)?;
        x.max_pool2d_with_stride(WINDOW, 1)
    };
    Ok(Func::new(move |x| {
        let x = x.apply(&before)?;
        let near = pooled(&x)?;
        let far = pooled(&near)?;
        let furthest = pooled(&far)?;
        Tensor::cat(&[x, near, far, furthest], 1)?.apply(&after)
    }))
}

/// Three convolutions, the last one plain: of a result's boxes or classes.
fn branch(from: usize, width: usize, to: usize, vb: Builder) -> Result<Layer> {
    let first = convolution([from, width], 3, 1, vb.pp(0))?;
    let second = convolution([width; 2], 3, 1, vb.pp(1))?;
    let last = padded([width, to], 1, 1, &vb.pp(2))?;
    Ok(Func::new(move |x| {
        x.apply(&first)?
            .apply(&second)?
            .apply(&last)?
            .flatten_from(2)
    }))
}

/// Boxes and classes of places at three strides: (batch, 4 + classes, places).
fn detection(size: &Size, vb: &Builder) -> Result<impl Fn(&[Tensor; 3]) -> Result<Tensor>> {
    let channels = [size.widths[2], size.widths[3], size.widths[4]];
    let width_of_boxes = DISTANCES.max(channels[0] / 4).max(4 * DISTANCES);
    let width_of_classes = channels[0].max(size.classes.min(100));
    let mut branches = Vec::new();
    for (i, from) in channels.into_iter().enumerate() {
        let boxes = branch(from, width_of_boxes, 4 * DISTANCES, vb.pp("cv2").pp(i))?;
        let classes = branch(from, width_of_classes, size.classes, vb.pp("cv3").pp(i))?;
        branches.push((boxes, classes));
    }
    Ok(move |levels: &[Tensor; 3]| {
        let (mut boxes, mut classes, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for ((level, (of_boxes, of_classes)), stride) in levels.iter().zip(&branches).zip(STRIDES) {
            boxes.push(level.apply(of_boxes)?);
            classes.push(level.apply(of_classes)?);
            places.push(centres(level, stride)?);
        }
        let boxes = decoded(&Tensor::cat(&boxes, 2)?, &Tensor::cat(&places, 1)?)?;
        let classes = candle_nn::ops::sigmoid(&Tensor::cat(&classes, 2)?)?;
        Tensor::cat(&[boxes, classes], 1)
    })
}

/// x, y and stride of a level's places, in pixels: (3, places).
fn centres(level: &Tensor, stride: f64) -> Result<Tensor> {
    let (_, _, height, width) = level.dims4()?;
    let along = |count: usize, device: &Device| -> Result<Tensor> {
        let steps = Tensor::arange(0u32, count as u32, device)?.to_dtype(DType::F32)?;
        steps.affine(stride, stride / 2.)?.to_dtype(level.dtype())
    };
    let (x, y) = (
        along(width, level.device())?,
        along(height, level.device())?,
    );
    let x = x.reshape((1, width))?.broadcast_as((height, width))?;
    let y = y.reshape((height, 1))?.broadcast_as((height, width))?;
    let strides = (x.ones_like()? * stride)?;
    let all = [x.flatten_all()?, y.flatten_all()?, strides.flatten_all()?];
    Tensor::stack(&all, 0)
}

/// Centre, width and height of boxes from the distributions of their sides' distances.
fn decoded(boxes: &Tensor, places: &Tensor) -> Result<Tensor> {
    let (batch, _, count) = boxes.dims3()?;
    let shares = candle_nn::ops::softmax(&boxes.reshape((batch, 4, DISTANCES, count))?, 2)?;
    let distances = Tensor::arange(0u32, DISTANCES as u32, boxes.device())?;
    let distances = distances
        .to_dtype(boxes.dtype())?
        .reshape((1, 1, DISTANCES, 1))?;
    let sides = shares.broadcast_mul(&distances)?.sum(2)?;
    let sides = sides.broadcast_mul(&places.narrow(0, 2, 1)?)?;
    let (before, after) = (sides.narrow(1, 0, 2)?, sides.narrow(1, 2, 2)?);
    let middle = ((&after - &before)? / 2.)?.broadcast_add(&places.narrow(0, 0, 2)?)?;
    Tensor::cat(&[middle, (before + after)?], 1)
}

/// Twice as large, beside `other`.
fn enlarged(x: &Tensor, other: &Tensor) -> Result<Tensor> {
    let (_, _, height, width) = other.dims4()?;
    Tensor::cat(&[&x.upsample_nearest2d(height, width)?, other], 1)
}

/// The whole network, from images to boxes and classes.
pub fn network(size: &Size, vb: Builder) -> Result<Layer> {
    let [w0, w1, w2, w3, w4] = size.widths;
    let (depth, twice) = (size.depth, 2 * size.depth);
    let model = vb.pp("model");
    let at = |number: usize| model.pp(number);
    let to_2 = convolution([3, w0], 3, 2, at(0))?;
    let to_4 = convolution([w0, w1], 3, 2, at(1))?;
    let of_4 = stage([w1, w1], depth, true, at(2))?;
    let to_8 = convolution([w1, w2], 3, 2, at(3))?;
    let of_8 = stage([w2, w2], twice, true, at(4))?;
    let to_16 = convolution([w2, w3], 3, 2, at(5))?;
    let of_16 = stage([w3, w3], twice, true, at(6))?;
    let to_32 = convolution([w3, w4], 3, 2, at(7))?;
    let of_32 = stage([w4, w4], depth, true, at(8))?;
    let maxima = pyramid(w4, at(9))?;
    let up_16 = stage([w4 + w3, w3], depth, false, at(12))?;
    let up_8 = stage([w3 + w2, w2], depth, false, at(15))?;
    let back_16 = convolution([w2, w2], 3, 2, at(16))?;
    let down_16 = stage([w2 + w3, w3], depth, false, at(18))?;
    let back_32 = convolution([w3, w3], 3, 2, at(19))?;
    let down_32 = stage([w3 + w4, w4], depth, false, at(21))?;
    let detect = detection(size, &at(22))?;
    Ok(Func::new(move |x| {
        let x = x.apply(&to_2)?.apply(&to_4)?.apply(&of_4)?;
        let at_8 = x.apply(&to_8)?.apply(&of_8)?;
        let at_16 = at_8.apply(&to_16)?.apply(&of_16)?;
        let at_32 = at_16.apply(&to_32)?.apply(&of_32)?.apply(&maxima)?;
        let half_way = enlarged(&at_32, &at_16)?.apply(&up_16)?;
        let fine = enlarged(&half_way, &at_8)?.apply(&up_8)?;
        let middle = Tensor::cat(&[&fine.apply(&back_16)?, &half_way], 1)?.apply(&down_16)?;
        let coarse = Tensor::cat(&[&middle.apply(&back_32)?, &at_32], 1)?.apply(&down_32)?;
        detect(&[fine, middle, coarse])
    }))
}
