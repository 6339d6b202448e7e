//! The figures, as a file and as a page.

use std::fmt::Write as _;

use serde::Serialize;

use crate::problems::{Group, Problem, Rows};
use crate::{few, products, quantized, rows};

/// Everything that was measured.
#[derive(Serialize)]
pub struct Figures {
    /// The GPU's name.
    pub gpu: String,
    /// Why there is no column of the vendor's library.
    pub library: Option<String>,
    /// Products.
    pub products: Vec<Product>,
    /// Row kernels.
    pub rows: Vec<RowKernel>,
    /// Skinny products.
    pub few: Vec<few::Line>,
    /// Quantised products.
    pub quantized: Vec<quantized::Line>,
}

/// A product and what came of it.
#[derive(Serialize)]
pub struct Product {
    /// What it stands for.
    pub group: Group,
    /// Element type.
    pub dtype: &'static str,
    /// Rows of C, columns of C, columns of A.
    pub shape: [usize; 3],
    /// `n` or `t` of A and B.
    pub ops: String,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: products::Outcome,
}

/// A row kernel and what came of it.
#[derive(Serialize)]
pub struct RowKernel {
    /// Candle's name.
    pub kernel: &'static str,
    /// Element type.
    pub dtype: &'static str,
    /// Rows and columns.
    pub shape: [usize; 2],
    /// What came of it.
    #[serde(flatten)]
    pub outcome: rows::Outcome,
}

impl Product {
    /// Of a problem.
    pub fn new(problem: &Problem, outcome: products::Outcome) -> Product {
        Product {
            group: problem.group,
            dtype: problem.dtype.name(),
            shape: [problem.m, problem.n, problem.k],
            ops: problem.ops.iter().map(|op| op.letter()).collect(),
            outcome,
        }
    }

    fn tflops(&self, us: f64) -> f64 {
        let [m, n, k] = self.shape.map(|size| size as f64);
        2.0 * m * n * k / us / 1e6
    }
}

impl RowKernel {
    /// Of a problem.
    pub fn new(rows: &Rows, outcome: rows::Outcome) -> RowKernel {
        RowKernel {
            kernel: rows.kernel,
            dtype: rows.dtype().name(),
            shape: [rows.rows, rows.columns],
            outcome,
        }
    }
}

fn optional(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

const HEAD: &str = "\
Products are of column-major matrices, m x k by k x n; \"tn\" is a linear layer: both have k together. Times are medians of
seven samples of 10 ms, by events, with A in turns from 128 MiB of copies. TFLOP/s count 2 m n k. The share is the library's
time by ours. Errors are the largest |found - exact| / (sum of |a b|) against f64, over all elements of small products and
256 of others.
";

impl Figures {
    /// The page.
    pub fn page(&self) -> String {
        let mut page = format!("# Products and reductions on {}\n\n{HEAD}", self.gpu);
        if let Some(why) = &self.library {
            let _ = writeln!(page, "\nNo library: {why}.");
        }
        if !self.products.is_empty() {
            page += "\n| product | kernel | us | TFLOP/s | library us | TFLOP/s | share | error | library's |\n\
                     |---|---|---|---|---|---|---|---|---|\n";
        }
        for product in &self.products {
            let of = &product.outcome;
            let rate = |us: Option<f64>| optional(us.map(|us| product.tflops(us)), 1);
            let share = of
                .own_us
                .zip(of.library_us)
                .map(|(own, library)| library / own);
            let [m, n, k] = product.shape;
            let _ = writeln!(
                page,
                "| {} {m} x {n} x {k} {} | {} | {} | {} | {} | {} | {} | {:.1e} | {} |",
                product.dtype,
                product.ops,
                of.kernel,
                optional(of.own_us, 1),
                rate(of.own_us),
                optional(of.library_us, 1),
                rate(of.library_us),
                optional(share, 2),
                of.own_error,
                of.library_error
                    .map_or("-".to_owned(), |error| format!("{error:.1e}")),
            );
        }
        page += &self.skinny_columns();
        page += &self.quantized();
        page += &self.plans();
        page += &self.reductions();
        page
    }

    fn quantized(&self) -> String {
        if self.quantized.is_empty() {
            return String::new();
        }
        let mut page = String::from(
            "\n## Quantised matrices by few vectors\n\nOf the kernel alone, without the quantisation of the vectors. Runs are \
             launched as graphs; the copy reads half of the matrix's bytes and writes as many.\n\n\
             | matrix | vectors | MiB | copy us | fastest | threads to a row | us | share of the copy |\n\
             |---|---|---|---|---|---|---|---|\n",
        );
        for line in &self.quantized {
            let [rows, columns, vectors] = line.shape;
            let Some((name, threads, us)) = line.best() else {
                continue;
            };
            let _ = writeln!(
                page,
                "| {} {rows} x {columns} | {vectors} | {:.1} | {:.1} | {name} | {threads} | {us:.1} | {:.2} |",
                line.format,
                line.bytes as f64 / f64::from(1 << 20),
                line.copy_us,
                line.copy_us / us,
            );
        }
        page
    }

    fn skinny_columns(&self) -> String {
        if self.few.is_empty() {
            return String::new();
        }
        let mut page = String::from(
            "\n## Few columns\n\nRuns are launched as graphs. The copy reads half of the product's bytes and writes as many; the \
             share is its time by ours. Last, the fastest of the plans that were tried.\n\n\
             | product | MiB | copy us | TB/s | plan | us | share of the copy | library us | fastest plan | us | share |\n\
             |---|---|---|---|---|---|---|---|---|---|---|\n",
        );
        for line in &self.few {
            let [m, n, k] = line.shape;
            let (Some((plan, us)), Some((best, least))) = (
                line.plans.first(),
                line.plans
                    .iter()
                    .min_by(|one, other| one.1.total_cmp(&other.1)),
            ) else {
                continue;
            };
            let _ = writeln!(
                page,
                "| {} {m} x {n} x {k} {} | {:.1} | {:.1} | {:.2} | {plan} | {us:.1} | {:.2} | {} | {best} | {least:.1} | {:.2} |",
                line.dtype,
                line.ops,
                line.bytes as f64 / f64::from(1 << 20),
                line.copy_us,
                line.bytes as f64 / line.copy_us / 1e6,
                line.copy_us / us,
                optional(line.library_us, 1),
                line.copy_us / least,
            );
        }
        page
    }

    fn plans(&self) -> String {
        let mut page = String::new();
        for product in self
            .products
            .iter()
            .filter(|of| !of.outcome.plans.is_empty())
        {
            if page.is_empty() {
                page += "\n## Every plan\n\nIn the order of the estimates, the first is the one that runs.\n\n\
                         | product | plan | us | TFLOP/s | error |\n|---|---|---|---|---|\n";
            }
            let [m, n, k] = product.shape;
            for of in &product.outcome.plans {
                let _ = writeln!(
                    page,
                    "| {} {m} x {n} x {k} {} | {} | {} | {} | {:.1e} |",
                    product.dtype,
                    product.ops,
                    of.plan,
                    optional(of.us, 1),
                    optional(of.us.map(|us| product.tflops(us)), 1),
                    of.error,
                );
            }
        }
        page
    }

    fn reductions(&self) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let mut page = String::from(
            "\n## Rows: a tree in LDS, and lane exchanges\n\nThe tree halves the threads in each step, with a barrier after it; \
             the kernels that ship reduce within wavefronts by lane exchanges and meet once in LDS. Both read a row once. \
             Counts are of the emulator, for each row: LDS instructions with lane permutations, which take no LDS cycles here, \
             and barriers, one for each wavefront that waits.\n\n\
             | kernel | rows | tree us | wave us | share | tree: instructions | LDS | cycles | barriers | wave: instructions \
             | LDS | cycles | barriers | tree's error | wave's |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
        );
        for row in &self.rows {
            let rows::Outcome { tree, wave } = &row.outcome;
            let counted = |form: &rows::Form| {
                let of = |number: fn(&rows::Counted) -> f64, digits| {
                    optional(form.counted.as_ref().map(number), digits)
                };
                [
                    of(|c| c.instructions, 0),
                    of(|c| c.lds, 1),
                    of(|c| c.lds_cycles, 1),
                    of(|c| c.barriers, 1),
                ]
                .join(" | ")
            };
            let share = tree.us.zip(wave.us).map(|(tree, wave)| tree / wave);
            let [rows, columns] = row.shape;
            let _ = writeln!(
                page,
                "| {}_{} | {rows} x {columns} | {} | {} | {} | {} | {} | {:.1e} | {:.1e} |",
                row.kernel,
                row.dtype,
                optional(tree.us, 1),
                optional(wave.us, 1),
                optional(share, 2),
                counted(tree),
                counted(wave),
                tree.error,
                wave.error,
            );
        }
        page
    }
}
