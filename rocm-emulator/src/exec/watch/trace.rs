//! Writing down what one wavefront does: an instruction a line, with the registers that it changed.

use std::io::Write;

use parking_lot::Mutex;

use crate::codeobject::LoadedKernel;
use crate::exec::program;
use crate::exec::wave::{Row, Wave};

/// Which wavefront to trace, and where to.
#[derive(Clone, Copy)]
pub struct Trace<'a> {
    /// Receives one line an instruction: offset, disassembly, registers that changed.
    pub out: &'a Mutex<dyn Write + Send>,
    /// Workgroup coordinates.
    pub workgroup: [u32; 3],
    /// Wavefront within the workgroup.
    pub wave: u32,
}

/// Registers as they were before an instruction.
struct Before {
    pc: u64,
    vgpr: Vec<Row>,
    agpr: Vec<Row>,
    sgpr: [u32; 106],
    vcc: u64,
    exec: u64,
    scc: bool,
    m0: u32,
}

/// Traces the wavefront that was asked for.
pub(crate) struct Tracer<'a> {
    trace: Trace<'a>,
    kernel: &'a LoadedKernel,
    before: Mutex<Option<Before>>,
}

impl<'a> Tracer<'a> {
    pub fn new(trace: Trace<'a>, kernel: &'a LoadedKernel) -> Self {
        Tracer {
            trace,
            kernel,
            before: Mutex::new(None),
        }
    }

    pub fn wants(&self, workgroup: [u32; 3], wave: u32) -> bool {
        self.trace.workgroup == workgroup && self.trace.wave == wave
    }

    pub fn before(&self, wave: &Wave, pc: u64) {
        *self.before.lock() = Some(Before {
            pc,
            vgpr: wave.vgpr.to_vec(),
            agpr: wave.agpr.to_vec(),
            sgpr: wave.sgpr,
            vcc: wave.vcc,
            exec: wave.exec(),
            scc: wave.scc,
            m0: wave.m0,
        });
    }

    pub fn after(&self, wave: &Wave) {
        let Some(before) = self.before.lock().take() else {
            return;
        };
        let offset = before.pc.wrapping_sub(self.kernel.entry);
        let mut line = format!(
            "+{offset:#06x}  {}",
            program::text_at(self.kernel, before.pc)
        );
        let mut change = |text: String| {
            line += "\n           ";
            line += &text;
        };
        for (i, (old, new)) in before.sgpr.iter().zip(&wave.sgpr).enumerate() {
            if old != new {
                change(format!("s{i} = {new:#010x}"));
            }
        }
        let masks = [
            ("vcc", before.vcc, wave.vcc),
            ("exec", before.exec, wave.exec()),
            ("m0", before.m0.into(), wave.m0.into()),
            ("scc", before.scc.into(), wave.scc.into()),
        ];
        for (name, _, new) in masks.into_iter().filter(|(_, old, new)| old != new) {
            change(format!("{name} = {new:#x}"));
        }
        let files = [
            ("v", &before.vgpr, &wave.vgpr),
            ("a", &before.agpr, &wave.agpr),
        ];
        for (file, old, new) in files {
            for (i, (old, new)) in old.iter().zip(new.iter()).enumerate() {
                if old != new {
                    let lanes = &new.0[..wave.lanes as usize];
                    let words: Vec<String> =
                        lanes.iter().map(|word| format!("{word:08x}")).collect();
                    let name = match wave.accum_offset.map(usize::from) {
                        Some(offset) if i >= offset => format!("a{}", i - offset),
                        _ => format!("{file}{i}"),
                    };
                    change(format!("{name} = {}", words.join(" ")));
                }
            }
        }
        // A trace that cannot be written is no reason to end the launch: the writer reports its own errors.
        let _ = writeln!(self.trace.out.lock(), "{line}");
    }
}
