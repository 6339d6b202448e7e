//! Tables of kernels, and disassembly.

use std::io::{self, BufWriter, Write};

use rocm_emulator::codeobject::{CodeObject, Kernel};
use rocm_emulator::isa;

use crate::args::SourceArgs;
use crate::source;

/// A column: its heading, and a kernel's number for it.
type Column = (&'static str, fn(&Kernel) -> u32);

const COLUMNS: &[Column] = &[
    ("VGPRs", |kernel| kernel.vgpr_count),
    ("SGPRs", |kernel| kernel.sgpr_count),
    ("AGPRs", |kernel| kernel.agpr_count),
    ("LDS", |kernel| kernel.group_segment_fixed_size),
    ("scratch", |kernel| kernel.private_segment_fixed_size),
    ("spills", |kernel| {
        kernel.vgpr_spill_count + kernel.sgpr_spill_count
    }),
    ("kernarg", |kernel| kernel.kernarg_size),
    ("args", |kernel| kernel.explicit_kernarg_size()),
    ("workgroup", |kernel| kernel.max_flat_workgroup_size),
    ("code", |kernel| kernel.code_size as u32),
];

/// A closed pipe (`| head`) is a reader that has seen enough.
fn written(outcome: io::Result<()>) -> Result<(), String> {
    match outcome {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("writing the output: {error}"))
        }
        _ => Ok(()),
    }
}

/// `rocm-emu kernels`.
pub fn kernels(args: &SourceArgs) -> Result<(), String> {
    let objects = source::open(args)?;
    let out = &mut BufWriter::new(io::stdout().lock());
    written(objects.iter().enumerate().try_for_each(|(index, object)| {
        if index > 0 {
            writeln!(out)?;
        }
        kernel_table(object, out)
    }))
}

fn kernel_table(object: &CodeObject, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "{} (code object v{}, {} kernels, {} variables)",
        object.target,
        object.version,
        object.kernels.len(),
        object.globals.len()
    )?;
    let name_width = object
        .kernels
        .iter()
        .map(|kernel| kernel.name.len())
        .max()
        .unwrap_or(0)
        .max("kernel".len());
    write!(out, "{:name_width$}", "kernel")?;
    for (heading, _) in COLUMNS {
        write!(out, " {heading:>9}")?;
    }
    writeln!(out)?;
    for kernel in &object.kernels {
        write!(out, "{:name_width$}", kernel.name)?;
        for (_, number) in COLUMNS {
            write!(out, " {:>9}", number(kernel))?;
        }
        writeln!(out)?;
    }
    out.flush()
}

/// `rocm-emu disassemble`.
pub fn disassemble(args: &SourceArgs, name: Option<&str>) -> Result<(), String> {
    let objects = source::open(args)?;
    let chosen: Vec<source::Found> = match name {
        Some(name) => vec![source::find(&objects, name)?],
        None => objects
            .iter()
            .flat_map(|object| object.kernels.iter().map(move |kernel| (object, kernel)))
            .collect(),
    };
    let out = &mut BufWriter::new(io::stdout().lock());
    written(chosen.iter().try_for_each(|(object, kernel)| {
        disassemble_kernel(object, kernel, out)?;
        out.flush()
    }))
}

fn disassemble_kernel(
    object: &CodeObject,
    kernel: &Kernel,
    out: &mut impl Write,
) -> io::Result<()> {
    writeln!(out, "{:016x} <{}>:", kernel.entry, kernel.name)?;
    let words: Vec<u32> = object
        .code(kernel)
        .chunks_exact(4)
        .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
        .collect();
    let mut at = 0;
    while at < words.len() {
        let pc = kernel.entry + at as u64 * 4;
        let (size, text) = match isa::decode(object.target, &words[at..]) {
            Ok(inst) => (
                usize::from(inst.size / 4).max(1),
                isa::disassemble(object.target, &inst, pc),
            ),
            Err(error) => (1, format!("; {error}")),
        };
        let end = (at + size).min(words.len());
        let shown: Vec<String> = words[at..end]
            .iter()
            .map(|word| format!("{word:08X}"))
            .collect();
        writeln!(out, "    {text:<60} // {pc:012X}: {}", shown.join(" "))?;
        at = end;
    }
    writeln!(out)
}
