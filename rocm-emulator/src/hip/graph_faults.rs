//! Graphs that go wrong as those of some of AMD's releases do (`ROCM_EMU_GRAPH_FAULT`), for tests of what guards
//! against that.

use std::sync::Arc;

use parking_lot::Mutex;

use super::error::Result;
use super::operation::{Node, Operation};
use super::settings::GraphFaultKind;
use super::state::{Device, Runtime};

/// Graphs of fewer kernels are right, as they are on hardware.
const FEWEST: usize = 8;
/// Bytes of a buffer that are looked at: inputs that are set between launches are small.
const SMALL: u64 = 64;

/// The beginning of a buffer that was written since a graph was made.
struct Written {
    device: usize,
    address: u64,
    /// As it was when the graph was made.
    before: Vec<u8>,
    /// As it is.
    after: Vec<u8>,
}

static WRITTEN: Mutex<Vec<Written>> = Mutex::new(Vec::new());

/// A graph is made: what memory holds now is what its launches may see.
pub fn made() {
    WRITTEN.lock().clear();
}

/// What the launch of the graph of this number does.
pub fn launch(runtime: &Runtime, number: u64, nodes: Arc<[Node]>) -> Operation {
    let fault = runtime.settings.graph_fault;
    let Some(fault) = fault.filter(|fault| number >= fault.first) else {
        return Operation::Graph(nodes);
    };
    let is_kernel = |at: &usize| matches!(nodes[*at].operation, Operation::Kernel(_));
    let kernels: Vec<usize> = (0..nodes.len()).filter(is_kernel).collect();
    if kernels.len() < FEWEST {
        return Operation::Graph(nodes);
    }
    match fault.kind {
        GraphFaultKind::Garbage => {
            let mut nodes = nodes.to_vec();
            nodes[kernels[kernels.len() / 2]].operation = Operation::Empty;
            Operation::Graph(nodes.into())
        }
        GraphFaultKind::Stale | GraphFaultKind::StaleCopies => Operation::StaleGraph(nodes),
    }
}

/// Do an operation that is no node of a graph, and note what it writes where graphs are not to see it.
///
/// # Errors
/// The operation's own.
pub fn run(runtime: &Runtime, device: &Device, operation: &Operation) -> Result {
    let Some(fault) = runtime.settings.graph_fault else {
        return operation.run(runtime, device);
    };
    let targets = match (operation, fault.kind) {
        (Operation::StaleGraph(_), _) => return run_stale(runtime, device, operation),
        (_, GraphFaultKind::Garbage) => Vec::new(),
        (Operation::Copy(copy), _) => vec![copy.to],
        (Operation::Kernel(launch), GraphFaultKind::Stale) => launch.addresses(),
        _ => Vec::new(),
    };
    let looked_at: Vec<(u64, Vec<u8>)> = targets
        .into_iter()
        .filter_map(|address| Some((address, beginning(device, address)?)))
        .collect();
    operation.run(runtime, device)?;
    for (address, before) in looked_at {
        note(device, address, before);
    }
    Ok(())
}

/// The first bytes of a buffer of the device.
fn beginning(device: &Device, address: u64) -> Option<Vec<u8>> {
    let room = device.memory.lookup(address)?.end() - address;
    let mut bytes = vec![0; room.min(SMALL) as usize];
    device.memory.read(address, &mut bytes).ok()?;
    Some(bytes)
}

fn note(device: &Device, address: u64, before: Vec<u8>) {
    let Some(after) = beginning(device, address).filter(|after| *after != before) else {
        return;
    };
    let mut written = WRITTEN.lock();
    let known = written
        .iter_mut()
        .find(|known| known.device == device.index && known.address == address);
    match known {
        Some(known) => known.after = after,
        None => written.push(Written {
            device: device.index,
            address,
            before,
            after,
        }),
    }
}

/// Run a graph as if nothing had been written since it was made.
fn run_stale(runtime: &Runtime, device: &Device, graph: &Operation) -> Result {
    let written = WRITTEN.lock();
    let own = |known: &&Written| known.device == device.index;
    let replace = |at: &Written, from: &[u8], to: &[u8]| -> Result<bool> {
        let mut now = vec![0; from.len()];
        let is_there = device.memory.read(at.address, &mut now).is_ok() && now == from;
        if is_there {
            device.memory.write(at.address, to)?;
        }
        Ok(is_there)
    };
    let mut hidden = Vec::new();
    for known in written.iter().filter(own) {
        if replace(known, &known.after, &known.before)? {
            hidden.push(known);
        }
    }
    graph.run(runtime, device)?;
    for known in hidden.into_iter().rev() {
        replace(known, &known.before, &known.after)?;
    }
    Ok(())
}
