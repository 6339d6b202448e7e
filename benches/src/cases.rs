//! What is measured.

use candle_rocm_bench_protocol::{Case, Kind};
use serde::{Deserialize, Serialize};

/// Rows that stand together on the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// One value from one value, or from two in the same place.
    Elementwise,
    /// Rearranging, filling and joining.
    Copies,
    /// By index.
    Indexing,
    /// Sums and extremes.
    Reductions,
    /// softmax and the norms.
    Rows,
    /// Rotary positions, sorting, scans, losses, optimisers, convolution, pooling, resizing.
    Others,
    /// Products with quantised weights.
    Quantized,
    /// Products of plain matrices.
    Products,
    /// Attention and its gradients, which Candle has not.
    Attention,
    /// Layers of convolutional networks, and their gradients.
    Conv,
    /// The CPU's time.
    Host,
    /// Tokens a second.
    Models,
    /// Forward passes of convolutional networks.
    Networks,
}

impl Group {
    /// All, in the page's order.
    pub const ALL: [Self; 13] = [
        Self::Elementwise,
        Self::Copies,
        Self::Indexing,
        Self::Reductions,
        Self::Rows,
        Self::Others,
        Self::Quantized,
        Self::Products,
        Self::Attention,
        Self::Conv,
        Self::Host,
        Self::Models,
        Self::Networks,
    ];

    /// Its heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::Elementwise => "Elementwise",
            Self::Copies => "Copies, fills and joins",
            Self::Indexing => "Indexing",
            Self::Reductions => "Reductions",
            Self::Rows => "softmax, layer_norm, rms_norm",
            Self::Others => {
                "RoPE, sorting, scans, losses, optimisers, pooling, resizing, convolution"
            }
            Self::Quantized => "Quantised weights",
            Self::Products => "Products",
            Self::Attention => "Attention",
            Self::Conv => "Layers of convolutions",
            Self::Host => "Host cost",
            Self::Models => "Models",
            Self::Networks => "Convolutional networks",
        }
    }

    /// Whether its operators are limited by memory, so that a device copy is their yardstick.
    pub fn is_memory_bound(self) -> bool {
        matches!(
            self,
            Self::Elementwise
                | Self::Copies
                | Self::Indexing
                | Self::Reductions
                | Self::Rows
                | Self::Others
        )
    }
}

/// Operators of any dimensions, measured as `rows x 1024`.
struct Sweep {
    group: Group,
    /// Whether all read and write contiguous memory in order.
    contiguous: bool,
    ops: &'static [&'static str],
}

/// Convolutions stay at 16 MiB and under.
const SWEEPS: &[Sweep] = &[
    Sweep {
        group: Group::Elementwise,
        contiguous: true,
        ops: &[
            "exp",
            "log",
            "sin",
            "cos",
            "tanh",
            "abs",
            "neg",
            "recip",
            "sqr",
            "sqrt",
            "gelu",
            "gelu_erf",
            "erf",
            "silu",
            "relu",
            "sigmoid",
            "floor",
            "round",
            "elu",
            "powf",
            "affine",
            "add",
            "sub",
            "mul",
            "div",
            "minimum",
            "maximum",
            "lt",
            "eq",
            "where",
            "cast_f16",
            "cast_bf16",
            "cast_f32",
            "cast_u8",
        ],
    },
    Sweep {
        group: Group::Elementwise,
        contiguous: false,
        ops: &["add_row", "mul_column"],
    },
    Sweep {
        group: Group::Copies,
        contiguous: true,
        ops: &["copy", "fill", "zeros", "cat_first", "cat_last"],
    },
    Sweep {
        group: Group::Copies,
        contiguous: false,
        ops: &[
            "transpose",
            "exp_transposed",
            "add_transposed",
            "narrow",
            "swap_middle",
        ],
    },
    Sweep {
        group: Group::Indexing,
        contiguous: false,
        ops: &["index_select", "index_add", "gather", "scatter_add"],
    },
    Sweep {
        group: Group::Reductions,
        contiguous: false,
        ops: &[
            "sum_last",
            "max_last",
            "argmax_last",
            "sum_first",
            "max_first",
            "argmax_first",
            "sum_all",
        ],
    },
    Sweep {
        group: Group::Others,
        contiguous: false,
        ops: &[
            "rope",
            "rope_i",
            "rope_thd",
            "sort",
            "argsort",
            "avg_pool2d",
            "max_pool2d",
            "upsample_nearest2d",
            "upsample_bilinear2d",
            "conv1d",
            "conv2d",
            "conv_transpose2d",
        ],
    },
];

/// Whether an operator reads and writes contiguous memory in order.
pub fn is_contiguous(op: &str) -> bool {
    SWEEPS
        .iter()
        .any(|sweep| sweep.contiguous && sweep.ops.contains(&op))
}

/// Operators on rows, measured over widths.
const ROWS: [&str; 3] = ["softmax", "layer_norm", "rms_norm"];

/// Which belong to a quick run, at 64 KiB and 16 MiB in f32 and f16.
const QUICK: &[&str] = &[
    "exp",
    "gelu",
    "affine",
    "add",
    "lt",
    "where",
    "cast_f32",
    "cast_f16",
    "copy",
    "fill",
    "transpose",
    "swap_middle",
    "narrow",
    "cat_last",
    "index_select",
    "gather",
    "scatter_add",
    "sum_last",
    "sum_first",
    "argmax_last",
    "rope",
    "rope_i",
    "sort",
    "max_pool2d",
    "upsample_nearest2d",
    "conv2d",
];

const FLOATS: [&str; 3] = ["f32", "f16", "bf16"];
const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const SIZES: [usize; 6] = [KIB, 64 * KIB, MIB, 16 * MIB, 128 * MIB, 1024 * MIB];
const WIDTHS: [usize; 7] = [64, 256, 1024, 4096, 8192, 32_768, 131_072];
/// Elements of the inputs over rows.
const ROW_ELEMENTS: usize = 64 << 20;
const FORMATS: [&str; 10] = [
    "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_K", "q3_K", "q4_K", "q5_K", "q6_K",
];
/// Formats measured with more than one vector.
const COMMON_FORMATS: [&str; 4] = ["q4_0", "q8_0", "q4_K", "q6_K"];
/// Rows and columns of weights.
const WEIGHTS: [(usize, usize); 3] = [(4096, 4096), (4096, 14_336), (14_336, 4096)];
const LINKS: [&str; 12] = [
    "affine",
    "add",
    "exp",
    "cast",
    "transpose",
    "add_transposed",
    "broadcast_add",
    "sum",
    "softmax",
    "rms_norm",
    "matmul",
    "layer",
];

/// A case and where it belongs.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Where it stands.
    pub group: Group,
    /// What is measured.
    pub case: Case,
    /// Whether a quick run measures it.
    pub quick: bool,
}

/// Which cases a worker is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// All.
    Everything,
    /// Those with products of matrices or convolutions in them, of workers that differ in who computes these.
    Products,
    /// Those with convolutions of Candle's in them, of workers built with another way to make them.
    Convolutions,
}

impl Entry {
    /// Whether workers that are asked for such cases are asked for this one.
    pub fn is_for(&self, asked: Asked) -> bool {
        let has_convolutions = matches!(self.group, Group::Conv | Group::Networks);
        match asked {
            Asked::Everything => true,
            Asked::Convolutions => has_convolutions,
            Asked::Products => match self.group {
                Group::Products | Group::Models => true,
                Group::Host => ["matmul", "layer"].contains(&self.case.op.as_str()),
                _ => has_convolutions,
            },
        }
    }
}

fn bytes_of(dtype: &str) -> usize {
    match dtype {
        "f64" => 8,
        "f32" => 4,
        _ => 2,
    }
}

/// Dimensions of about `elements` elements, a power of two, that suit an operator.
fn dims(op: &str, elements: usize) -> Vec<usize> {
    let split = |inner: &[usize]| {
        // The innermost dimensions that fit.
        let (mut dims, mut left) = (Vec::new(), elements);
        for &n in inner.iter().rev() {
            let n = n.min(left);
            dims.insert(0, n);
            left /= n;
        }
        dims.insert(0, left);
        dims
    };
    match op {
        // (batch, head, sequence, width) and (batch, sequence, head, width).
        "rope" | "rope_i" => split(&[32, 512, 128]),
        "rope_thd" | "swap_middle" => split(&[512, 32, 128]),
        "avg_pool2d" | "max_pool2d" => split(&[64, 64, 64]),
        "upsample_nearest2d" | "upsample_bilinear2d" => split(&[64, 64, 64]),
        "conv1d" => split(&[16, 512]),
        "conv2d" | "conv_transpose2d" => split(&[16, 32, 32]),
        // About square, so that neither side of the turn is a single line.
        "transpose" | "exp_transposed" | "add_transposed" => {
            split(&[1 << elements.ilog2().div_ceil(2)])
        }
        _ => split(&[1024]),
    }
}

/// All cases, in the order in which they are measured.
pub fn all() -> Vec<Entry> {
    [
        sweeps(),
        of_f64(),
        rows(),
        ordered(),
        training(),
        quantized(),
        products(),
        attention(),
        layers(),
        host(),
        models(),
        networks(),
    ]
    .concat()
}

fn entry(group: Group, case: Case, quick: bool) -> Entry {
    Entry { group, case, quick }
}

fn sweeps() -> Vec<Entry> {
    let mut entries = Vec::new();
    for &Sweep { group, ops, .. } in SWEEPS {
        for &op in ops {
            let most = match op {
                "conv1d" | "conv2d" | "conv_transpose2d" => 16 * MIB,
                // Candle's kernel sums with one workgroup: a second for a GiB.
                "sum_all" => 128 * MIB,
                _ => 1024 * MIB,
            };
            for dtype in FLOATS {
                if op.strip_prefix("cast_") == Some(dtype) {
                    continue;
                }
                for bytes in SIZES.into_iter().filter(|bytes| *bytes <= most) {
                    let dims = dims(op, bytes / bytes_of(dtype));
                    let quick = QUICK.contains(&op)
                        && dtype != "bf16"
                        && [64 * KIB, 16 * MIB].contains(&bytes);
                    entries.push(entry(group, Case::device(op, dtype, &dims), quick));
                }
            }
        }
    }
    entries
}

fn of_f64() -> Vec<Entry> {
    const OPS: [(&str, Group); 6] = [
        ("exp", Group::Elementwise),
        ("affine", Group::Elementwise),
        ("add", Group::Elementwise),
        ("cast_f32", Group::Elementwise),
        ("sum_last", Group::Reductions),
        ("transpose", Group::Copies),
    ];
    let of = |(op, group)| {
        let case = Case::device(op, "f64", &dims(op, 16 * MIB / 8));
        entry(group, case, false)
    };
    OPS.map(of).into()
}

fn rows() -> Vec<Entry> {
    let mut entries = Vec::new();
    for op in ROWS {
        for dtype in FLOATS {
            for width in WIDTHS {
                let quick = dtype == "f16" && [256, 1024, 8192, 131_072].contains(&width);
                let dims = [ROW_ELEMENTS / width, width];
                entries.push(entry(Group::Rows, Case::device(op, dtype, &dims), quick));
            }
        }
    }
    entries
}

/// Sorts, the largest elements and sums of rows from 512 elements to 2^27, which Candle has not.
fn ordered() -> Vec<Entry> {
    const SHAPES: [[usize; 2]; 7] = [
        [1, 1 << 20],
        [1, 1 << 24],
        [1, 1 << 26],
        [4096, 4096],
        [64, 131_072],
        [32_768, 512],
        [1, 128_256],
    ];
    let mut entries = Vec::new();
    for dtype in ["f32", "bf16"] {
        let mut add = |op, dims: [usize; 2]| {
            let quick = dims == [4096, 4096];
            entries.push(entry(Group::Others, Case::device(op, dtype, &dims), quick));
        };
        for dims in SHAPES {
            for op in ["sort_pairs", "topk_50", "cumsum_last"] {
                add(op, dims);
            }
        }
        add("cumsum_last", [1, 1 << 27]);
        add("cumsum_first", [4096, 4096]);
        add("cumsum_first", [1 << 20, 16]);
        add("cumsum_first", [512, 32_768]);
    }
    entries
}

/// Losses, dropout and optimisers, which Candle makes of many operators.
fn training() -> Vec<Entry> {
    let mut entries = Vec::new();
    for dtype in ["f32", "bf16"] {
        let mut add = |op, dims: &[usize], quick| {
            entries.push(entry(Group::Others, Case::device(op, dtype, dims), quick));
        };
        for dims in [
            [8192, 1024],
            [8192, 32_000],
            [4096, 128_256],
            [8, 256_000],
            [8191, 50_257],
        ] {
            for op in ["cross_entropy", "cross_entropy_training"] {
                add(op, &dims, dims == [8192, 32_000]);
            }
        }
        add("adamw", &[1, 1 << 26], true);
        add("adamw", &[148, 840_000], false);
        add("dropout", &[8192, 8192], true);
    }
    let case = Case::device("linear_cross_entropy", "bf16", &[8192, 2304, 256_000]);
    entries.push(entry(Group::Others, case, false));
    entries
}

fn quantized() -> Vec<Entry> {
    let mut entries = Vec::new();
    for format in FORMATS {
        for (rows, columns) in WEIGHTS {
            for batch in [1, 2, 4, 8, 16, 64, 512, 2048] {
                let common = COMMON_FORMATS.contains(&format);
                if batch > 1 && !common {
                    continue;
                }
                let quick = common && (rows, columns) == WEIGHTS[0] && [1, 8, 512].contains(&batch);
                let case = Case::device("qmatmul", format, &[1, batch, rows, columns]);
                entries.push(entry(Group::Quantized, case, quick));
            }
        }
        let case = Case::device("dequantize", format, &[14_336, 4096]);
        entries.push(entry(Group::Quantized, case, false));
    }
    entries
}

fn products() -> Vec<Entry> {
    const LINEAR: [[usize; 4]; 6] = [
        [1, 1, 4096, 4096],
        [1, 16, 4096, 4096],
        [1, 512, 4096, 4096],
        [1, 2048, 14_336, 4096],
        [1, 4096, 4096, 4096],
        [32, 512, 512, 128],
    ];
    const MATMUL: [[usize; 4]; 2] = [[1, 4096, 4096, 4096], [32, 512, 128, 512]];
    let mut entries = Vec::new();
    for dtype in FLOATS {
        for dims in LINEAR {
            let quick = dims[0] == 1 && [1, 512].contains(&dims[1]);
            let case = Case::device("linear", dtype, &dims);
            entries.push(entry(Group::Products, case, quick));
        }
        for dims in MATMUL {
            let case = Case::device("matmul", dtype, &dims);
            entries.push(entry(Group::Products, case, false));
        }
    }
    entries
}

fn attention() -> Vec<Entry> {
    let mut entries = Vec::new();
    for op in [
        "attention",
        "attention_causal",
        "attention_backward",
        "attention_causal_backward",
    ] {
        for length in [1024, 8192] {
            let case = Case::device(op, "bf16", &[8192 / length, 32, length, 128]);
            entries.push(entry(Group::Attention, case, length == 8192));
        }
    }
    for length in [1024, 4096, 16_384, 32_768, 131_072] {
        let case = Case::device("attend", "bf16", &[32, 8, length, 128]);
        entries.push(entry(Group::Attention, case, true));
    }
    entries
}

/// Layers by (batch, channels, size, outputs, kernel, stride, groups): ResNet's, Stable Diffusion's, YOLO's, ConvNeXt's,
/// MobileNet's, ResNeXt's, a vision transformer's patches, of which gradients are measured, too.
const LAYERS: [[usize; 7]; 18] = [
    [32, 3, 224, 64, 7, 2, 1],
    [32, 64, 56, 64, 3, 1, 1],
    [32, 128, 28, 128, 3, 1, 1],
    [32, 256, 14, 256, 3, 1, 1],
    [32, 512, 7, 512, 3, 1, 1],
    [32, 256, 56, 64, 1, 1, 1],
    [32, 512, 28, 1024, 1, 2, 1],
    [2, 320, 64, 320, 3, 1, 1],
    [2, 640, 32, 640, 3, 1, 1],
    [2, 1280, 16, 1280, 3, 1, 1],
    [2, 320, 64, 320, 3, 2, 1],
    [1, 128, 512, 128, 3, 1, 1],
    [1, 256, 256, 256, 3, 1, 1],
    [1, 64, 160, 64, 3, 1, 1],
    [32, 96, 56, 96, 7, 1, 96],
    [32, 96, 112, 96, 3, 2, 96],
    [32, 256, 28, 256, 3, 1, 32],
    [32, 3, 224, 768, 16, 16, 1],
];
/// Whisper's and Encodec's.
const LAYERS_1D: [[usize; 7]; 3] = [
    [1, 80, 3000, 1280, 3, 1, 1],
    [1, 1280, 3000, 1280, 3, 2, 1],
    [1, 128, 24_000, 128, 3, 1, 1],
];
/// DAC's and HiFi-GAN's, transposed.
const LAYERS_UP_1D: [[usize; 7]; 2] = [[1, 1536, 512, 768, 16, 8, 1], [1, 512, 800, 256, 16, 8, 1]];
const LAYERS_UP: [[usize; 7]; 1] = [[2, 512, 32, 256, 4, 2, 1]];

fn layers() -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut add = |op, dtype, all: &[[usize; 7]]| {
        for dims in all {
            let is_quick = dtype == "f16" && [64, 320].contains(&dims[1]);
            let case = Case::device(op, dtype, dims);
            entries.push(entry(Group::Conv, case, is_quick));
        }
    };
    for dtype in FLOATS {
        add("convolution", dtype, &LAYERS);
        add("convolution_1d", dtype, &LAYERS_1D);
        add("convolution_up", dtype, &LAYERS_UP);
        add("convolution_up_1d", dtype, &LAYERS_UP_1D);
    }
    for op in [
        "convolution_nhwc",
        "convolution_data",
        "convolution_weights",
    ] {
        add(op, "f16", &LAYERS);
    }
    entries
}

fn host() -> Vec<Entry> {
    let of = |(link, side): (&'static str, usize)| {
        let case = Case {
            kind: Kind::Host,
            ..Case::device(link, "f32", &[side, side])
        };
        entry(Group::Host, case, true)
    };
    // The last product of Candle's takes a tile, those before it few columns. Products in FP8 have scales of 128 elements.
    let larger = [
        ("matmul", 64),
        ("fp8_product", 128),
        ("grouped_product", 128),
    ];
    let links = LINKS.into_iter().map(|link| (link, 4));
    links.chain(larger).map(of).collect()
}

fn models() -> Vec<Entry> {
    const MODELS: [(&str, &str); 4] = [
        ("llama-1b", "f16"),
        ("llama-8b", "f16"),
        ("llama-8b", "q4_K"),
        ("llama-8b", "f8e4m3"),
    ];
    let of = |(model, dtype)| {
        let case = Case {
            kind: Kind::Model,
            ..Case::device(model, dtype, &[])
        };
        entry(Group::Models, case, model == "llama-1b")
    };
    MODELS.map(of).into()
}

/// Networks as users run them: their inputs, and those of their small versions.
const NETWORKS: [(&str, &str, &[usize], &[usize]); 7] = [
    ("resnet50", "f16", &[32, 3, 224, 224], &[1, 3, 32, 32]),
    ("resnet50", "f32", &[1, 3, 224, 224], &[1, 3, 32, 32]),
    ("yolov8s", "f16", &[1, 3, 640, 640], &[1, 3, 64, 64]),
    // A latent image with its text and without, and one that is decoded, of 512 x 512 pixels.
    ("sd15-unet", "f16", &[2, 4, 64, 64], &[2, 4, 8, 8]),
    ("sd15-vae-decoder", "f16", &[1, 4, 64, 64], &[1, 4, 6, 6]),
    // 30 s, and 10 s of 24,000 samples. Candle has both in f32 alone.
    (
        "whisper-large-v3-encoder",
        "f32",
        &[1, 128, 3000],
        &[1, 8, 32],
    ),
    ("encodec-24khz", "f32", &[1, 1, 240_000], &[1, 1, 96]),
];

fn network(name: &str, dtype: &str, dims: &[usize]) -> Case {
    Case {
        kind: Kind::Network,
        ..Case::device(name, dtype, dims)
    }
}

fn networks() -> Vec<Entry> {
    let of = |(name, dtype, dims, _): (&str, &str, &[usize], &[usize])| {
        entry(Group::Networks, network(name, dtype, dims), dtype == "f16")
    };
    NETWORKS.map(of).into()
}

/// The small versions of networks, in f32 and in their own dtypes.
fn small_networks() -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for (name, dtype, _, dims) in NETWORKS {
        for dtype in ["f32", dtype] {
            let case = network(&format!("{name}-tiny"), dtype, dims);
            let new = entry(Group::Networks, case, true);
            if !entries.contains(&new) {
                entries.push(new);
            }
        }
    }
    entries
}

/// One small case of every operator, link, model and network, for GPUs that are not fast.
pub fn smallest() -> Vec<Entry> {
    let mut seen = std::collections::HashSet::new();
    let mut entries = Vec::new();
    let large = all()
        .into_iter()
        .filter(|entry| entry.group != Group::Networks);
    for mut entry in large.chain(small_networks()) {
        let case = &mut entry.case;
        match case.kind {
            Kind::Network => {}
            Kind::Model => case.op = "llama-tiny".into(),
            Kind::Host => {}
            Kind::Device => {
                case.dims = match case.op.as_str() {
                    "qmatmul" => vec![1, 2, 3, 256],
                    "dequantize" => vec![2, 256],
                    "linear_cross_entropy" => vec![4, 16, 40],
                    "linear" | "matmul" => vec![1, 3, 4, 8],
                    "attend" => vec![4, 2, 9, 64],
                    op if op.starts_with("convolution") => vec![1, 4, 8, 4, 3, 1, 1],
                    op if op.starts_with("attention") => vec![1, 2, 9, 16],
                    "conv1d" => vec![1, 4, 16],
                    "conv2d" | "conv_transpose2d" => vec![1, 4, 8, 8],
                    op => dims(op, 256),
                };
            }
        }
        if seen.insert((case.op.clone(), case.dtype.clone())) {
            entries.push(entry);
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_case_is_measured_twice() {
        let mut seen = std::collections::HashSet::new();
        for entry in all() {
            assert!(seen.insert(entry.case.clone()), "{}", entry.case);
        }
    }

    #[test]
    fn host_costs_of_products_are_asked_of_each_way_to_multiply() {
        let hosts: Vec<_> = all()
            .into_iter()
            .filter(|entry| entry.group == Group::Host)
            .collect();
        let asked = |op: &str| -> Vec<(Vec<usize>, bool)> {
            let of_op = hosts.iter().filter(|entry| entry.case.op == op);
            of_op
                .map(|entry| (entry.case.dims.clone(), entry.is_for(Asked::Products)))
                .collect()
        };
        assert_eq!(asked("matmul"), [(vec![4, 4], true), (vec![64, 64], true)]);
        assert_eq!(asked("affine"), [(vec![4, 4], false)]);
        // Nobody else multiplies these.
        for op in ["fp8_product", "grouped_product"] {
            assert_eq!(asked(op), [(vec![128, 128], false)]);
        }
    }

    #[test]
    fn dimensions_hold_the_elements_asked_for() {
        for sweep in SWEEPS {
            for op in sweep.ops {
                for bytes in SIZES {
                    let dims = dims(op, bytes / 4);
                    let elements: usize = dims.iter().product();
                    assert_eq!(elements, bytes / 4, "{op}: {dims:?}");
                }
            }
        }
    }

    #[test]
    fn the_squares_of_8192_are_there() {
        let square = Case::device("softmax", "f16", &[8192, 8192]);
        assert!(all()
            .iter()
            .any(|entry| entry.case == square && entry.quick));
    }

    #[test]
    fn every_quick_operator_exists() {
        for op in QUICK {
            assert!(SWEEPS.iter().any(|sweep| sweep.ops.contains(op)), "{op}");
        }
    }
}
