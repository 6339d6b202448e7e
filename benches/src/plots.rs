//! The page's plots.

use std::path::Path;

use anyhow::{anyhow, Result};
use candle_rocm_bench_protocol::Kind;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::results::{Metric, Results, Row, OURS, STOCK, TORCH};

const SIZE: (u32, u32) = (760, 380);
const COLOURS: [RGBColor; 4] = [
    RGBColor(0xd6, 0x27, 0x28),
    RGBColor(0x1f, 0x77, 0xb4),
    RGBColor(0x2c, 0xa0, 0x2c),
    RGBColor(0x7f, 0x7f, 0x7f),
];

/// A line of a plot: its name, the index of its colour, and its points.
type Line = (String, usize, Vec<(f64, f64)>);

/// Draws what the results hold into files of `folder` whose names begin with `stem`, and returns the names of the files
/// and what they show.
///
/// # Errors
/// A file cannot be written.
pub fn draw(results: &Results, folder: &Path, stem: &str) -> Result<Vec<(String, &'static str)>> {
    let mut drawn = Vec::new();
    for plot in [
        over_size(results, "exp", "exp, f16: bandwidth over size"),
        over_size(results, "add", "add, f16: bandwidth over size"),
        over_width(
            results,
            "softmax",
            "softmax, f16, 64 Mi elements: bandwidth over width",
        ),
        over_width(
            results,
            "layer_norm",
            "layer_norm, f16, 64 Mi elements: bandwidth over width",
        ),
        over_width(
            results,
            "rms_norm",
            "rms_norm, f16, 64 Mi elements: bandwidth over width",
        ),
        ratios(results),
    ] {
        if plot.lines.iter().any(|(_, _, points)| points.len() > 1) {
            let file = format!("{stem}-{}.svg", plot.name);
            chart(&folder.join(&file), plot.title, &plot.lines, plot.axes)
                .map_err(|error| anyhow!("{file}: {error}"))?;
            drawn.push((file, plot.title));
        }
    }
    Ok(drawn)
}

/// What one file shows.
struct Plot {
    name: &'static str,
    title: &'static str,
    lines: Vec<Line>,
    axes: Axes,
}

/// GB/s of a kernel.
fn bandwidth(row: &Row, worker: &str) -> Option<f64> {
    let us = row.median(worker)?;
    (row.bytes > 0).then(|| row.bytes as f64 / us / 1e3)
}

/// The rows of an operator in f16.
fn rows_of<'a>(results: &'a Results, op: &str) -> Vec<&'a Row> {
    let of = |row: &&Row| is(row, op, "f16") && row.case.kind == Kind::Device;
    results.rows.iter().filter(of).collect()
}

/// An operator's bandwidth over bytes, beside a copy's.
fn over_size(results: &Results, op: &'static str, title: &'static str) -> Plot {
    let rows = rows_of(results, op);
    let mut lines = lines(&rows, |row| row.bytes as f64, &bandwidth);
    let copy = |row: &&Row| Some((row.bytes as f64, row.bytes as f64 / row.copy_us? / 1e3));
    lines.push((
        "device copy".into(),
        3,
        rows.iter().filter_map(copy).collect(),
    ));
    Plot {
        name: op,
        title,
        lines,
        axes: Axes {
            x: "bytes read and written",
            y: "GB/s",
            ticks: Ticks::Bytes,
        },
    }
}

/// An operator's bandwidth over the elements of a row.
fn over_width(results: &Results, op: &'static str, title: &'static str) -> Plot {
    let width = |row: &Row| row.case.dims.last().map_or(1., |n| *n as f64);
    Plot {
        name: op,
        title,
        lines: lines(&rows_of(results, op), width, &bandwidth),
        axes: Axes {
            x: "elements of a row",
            y: "GB/s",
            ticks: Ticks::Plain,
        },
    }
}

/// All kernels' ratios to stock, from the least up.
fn ratios(results: &Results) -> Plot {
    let mut ratios: Vec<f64> = results
        .rows
        .iter()
        .filter(|row| row.metric == Metric::DeviceUs)
        .filter_map(|row| row.speedup(STOCK))
        .collect();
    ratios.sort_by(f64::total_cmp);
    let count = ratios.len() as f64;
    let points = ratios
        .into_iter()
        .enumerate()
        .map(|(i, ratio)| (100. * i as f64 / count, ratio));
    Plot {
        name: "ratios",
        title: "Ratio to stock of every kernel row, sorted",
        lines: vec![("stock's time over ours".into(), 0, points.collect())],
        axes: Axes {
            x: "percent of rows",
            y: "ratio",
            ticks: Ticks::Linear,
        },
    }
}

fn is(row: &Row, op: &str, dtype: &str) -> bool {
    row.case.op == op && row.case.dtype == dtype
}

fn lines(
    rows: &[&Row],
    x: impl Fn(&Row) -> f64,
    y: &impl Fn(&Row, &str) -> Option<f64>,
) -> Vec<Line> {
    let line = |(colour, worker): (usize, &str)| {
        let point = |row: &&Row| Some((x(row), y(row, worker)?));
        (
            worker.to_owned(),
            colour,
            rows.iter().filter_map(point).collect::<Vec<_>>(),
        )
    };
    let all = [OURS, STOCK, TORCH].into_iter().enumerate().map(line);
    all.filter(|(_, _, points)| !points.is_empty()).collect()
}

#[derive(Clone, Copy)]
struct Axes {
    x: &'static str,
    y: &'static str,
    ticks: Ticks,
}

/// How x is scaled and written. All but `Linear` are logarithmic; `Linear` has a logarithmic y instead.
#[derive(Clone, Copy, PartialEq)]
enum Ticks {
    Bytes,
    Plain,
    Linear,
}

fn bytes(x: f64) -> String {
    match x {
        x if x >= 1e9 => format!("{:.0} GB", x / 1e9),
        x if x >= 1e6 => format!("{:.0} MB", x / 1e6),
        x if x >= 1e3 => format!("{:.0} kB", x / 1e3),
        x => format!("{x:.0} B"),
    }
}

/// Draws axes and lines: a macro, because each pair of scales is a type of its own.
macro_rules! draw {
    ($chart:expr, $lines:expr, $axes:expr, $x:expr, $y:expr) => {{
        let mut chart = $chart;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .x_desc($axes.x)
            .y_desc($axes.y)
            .x_label_formatter(&$x)
            .y_label_formatter(&$y)
            .draw()?;
        for (name, colour, points) in $lines {
            let colour = COLOURS[*colour];
            chart
                .draw_series(LineSeries::new(
                    points.iter().copied(),
                    colour.stroke_width(2),
                ))?
                .label(name)
                .legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2))
                });
            // Of few points each is marked.
            if points.len() < 30 {
                let mark = |point: &(f64, f64)| Circle::new(*point, 3, colour.filled());
                chart.draw_series(points.iter().map(mark))?;
            }
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .draw()?;
    }};
}

fn chart(
    path: &Path,
    title: &str,
    lines: &[Line],
    axes: Axes,
) -> Result<(), Box<dyn std::error::Error>> {
    let points = || {
        lines
            .iter()
            .flat_map(|(_, _, points)| points.iter().copied())
    };
    let range = |of: fn((f64, f64)) -> f64| {
        let low = points().map(of).fold(f64::MAX, f64::min);
        let high = points().map(of).fold(f64::MIN, f64::max);
        (low, high)
    };
    let ((left, right), (bottom, top)) = (range(|p| p.0), range(|p| p.1));
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut builder = ChartBuilder::on(&root);
    builder
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(60);
    if axes.ticks == Ticks::Linear {
        let chart =
            builder.build_cartesian_2d(left..right, (bottom * 0.9..top * 1.1).log_scale())?;
        draw!(
            chart,
            lines,
            axes,
            |x: &f64| format!("{x:.0}"),
            |y: &f64| format!("{y:.2}")
        );
        let style = TextStyle::from(("sans-serif", 12)).pos(Pos::new(HPos::Right, VPos::Bottom));
        root.draw(&Text::new(
            "above 1 ours is faster",
            (SIZE.0 as i32 - 16, SIZE.1 as i32 - 4),
            style,
        ))?;
    } else {
        let chart = builder.build_cartesian_2d((left..right).log_scale(), 0. ..top * 1.1)?;
        let x = move |x: &f64| match axes.ticks {
            Ticks::Bytes => bytes(*x),
            _ => format!("{x:.0}"),
        };
        draw!(chart, lines, axes, x, |y: &f64| format!("{y:.0}"));
    }
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::Group;
    use crate::results::tests::{results, row};

    #[test]
    fn plots_are_drawn_of_what_there_is() {
        let folder = tempfile::tempdir().unwrap();
        let widths = [64, 1024, 131_072].map(|width| {
            let figures = [(OURS, 60.), (STOCK, 90.)];
            let mut row = row("softmax", Group::Rows, Metric::DeviceUs, &figures);
            row.case.dims = vec![(64 << 20) / width, width];
            row
        });
        let drawn = draw(&results(widths.into()), folder.path(), "gpu").unwrap();
        let names: Vec<_> = drawn.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["gpu-softmax.svg", "gpu-ratios.svg"]);
        let svg = std::fs::read_to_string(folder.path().join(names[0])).unwrap();
        assert!(svg.contains("softmax, f16") && svg.contains("stock") && svg.contains("</svg>"));
    }
}
