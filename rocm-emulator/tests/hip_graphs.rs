//! Graphs built node by node: what they run, what can be read back and changed, what they refuse.

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use rocm_emulator::hip::abi::types::*;
use rocm_emulator::hip::{abi, last_fault, Code};
use rocm_emulator::isa::Target;

#[macro_use]
mod hip_support;
use hip_support::*;

/// The nodes that a function of graphs lists.
fn listed(list: impl Fn(*mut hipGraphNode_t, *mut usize)) -> Vec<hipGraphNode_t> {
    let mut count = 0;
    list(null_mut(), &mut count);
    let mut nodes = vec![null_mut(); count];
    list(nodes.as_mut_ptr(), &mut count);
    assert_eq!(count, nodes.len());
    nodes
}

unsafe extern "C" fn add_one(data: *mut c_void) {
    // SAFETY: the tests pass a number of their own.
    unsafe { *data.cast::<u32>() += 1 };
}

/// A graph of seven nodes: numbers are uploaded, scaled and copied in part over a filled buffer, which is fetched; a
/// function is called beside that, and an event recorded at the end.
struct Sample {
    module: hipModule_t,
    function: hipFunction_t,
    a: *mut c_void,
    b: *mut c_void,
    event: hipEvent_t,
    called: Box<u32>,
    input: Vec<u8>,
    output: Vec<u8>,
    graph: hipGraph_t,
    upload: hipGraphNode_t,
    fill: hipGraphNode_t,
    scale: hipGraphNode_t,
    copy: hipGraphNode_t,
    call: hipGraphNode_t,
    fetch: hipGraphNode_t,
    record: hipGraphNode_t,
}

/// Numbers, and the bytes that they are.
const COUNT: usize = 200;
const BYTES: usize = 4 * COUNT;

impl Sample {
    fn new() -> Sample {
        let (mut module, mut function, mut graph) = (null_mut(), null_mut(), null_mut());
        ok!(hipModuleLoadData(
            &mut module,
            code(Target::Gfx1100).as_ptr().cast()
        ));
        ok!(hipModuleGetFunction(
            &mut function,
            module,
            c"scale".as_ptr()
        ));
        ok!(hipGraphCreate(&mut graph, 0));
        let mut sample = Sample {
            module,
            function,
            a: malloc(BYTES),
            b: malloc(BYTES),
            event: event(),
            called: Box::new(0),
            input: (0..COUNT).flat_map(|i| (i as f32).to_le_bytes()).collect(),
            output: vec![0; BYTES],
            graph,
            upload: null_mut(),
            fill: null_mut(),
            scale: null_mut(),
            copy: null_mut(),
            call: null_mut(),
            fetch: null_mut(),
            record: null_mut(),
        };
        sample.add_nodes();
        sample
    }

    fn add_nodes(&mut self) {
        let (graph, a, b) = (self.graph, self.a, self.b);
        let from = self.input.as_ptr().cast();
        let to = self.output.as_mut_ptr().cast();
        let (none, one) = (null(), 1);
        ok!(hipGraphAddMemcpyNode1D(
            &mut self.upload,
            graph,
            none,
            0,
            a,
            from,
            BYTES,
            1
        ));
        let memset = self.memset();
        ok!(hipGraphAddMemsetNode(
            &mut self.fill,
            graph,
            none,
            0,
            &memset
        ));
        let mut scale = null_mut();
        self.with_kernel(2.0, |kernel| {
            ok!(hipGraphAddKernelNode(
                &mut scale,
                graph,
                &self.upload,
                one,
                kernel
            ));
        });
        self.scale = scale;
        let before = [self.scale, self.fill];
        let boxes = self.boxes(3);
        ok!(hipGraphAddMemcpyNode(
            &mut self.copy,
            graph,
            before.as_ptr(),
            2,
            &boxes
        ));
        let host = self.host();
        ok!(hipGraphAddHostNode(&mut self.call, graph, none, 0, &host));
        ok!(hipGraphAddMemcpyNode1D(
            &mut self.fetch,
            graph,
            &self.copy,
            one,
            to,
            b,
            BYTES,
            2
        ));
        ok!(hipGraphAddEventRecordNode(
            &mut self.record,
            graph,
            none,
            0,
            self.event
        ));
        // The record after the rest: dependencies can be added later.
        let from = [self.fetch, self.call];
        let to = [self.record; 2];
        ok!(hipGraphAddDependencies(
            graph,
            from.as_ptr(),
            to.as_ptr(),
            2
        ));
    }

    /// Calls with the parameters of a launch that multiplies by a factor.
    fn with_kernel(&self, mut factor: f32, call: impl FnOnce(&hipKernelNodeParams)) {
        let (mut pointer, mut count) = (self.a, COUNT as i32);
        let mut parameters: [*mut c_void; 3] = [
            (&raw mut pointer).cast(),
            (&raw mut factor).cast(),
            (&raw mut count).cast(),
        ];
        call(&hipKernelNodeParams {
            blockDim: dim3 { x: 128, y: 1, z: 1 },
            extra: null_mut(),
            func: self.function,
            gridDim: dim3 { x: 2, y: 1, z: 1 },
            kernelParams: parameters.as_mut_ptr(),
            sharedMemBytes: 0,
        });
    }

    fn memset(&self) -> hipMemsetParams {
        hipMemsetParams {
            dst: self.b,
            elementSize: 4,
            height: 1,
            pitch: 0,
            value: 0x4040_4040,
            width: COUNT,
        }
    }

    /// Rows of 40 bytes, the first few of every four of them, each to the row after its own in the other buffer.
    fn boxes(&self, height: usize) -> hipMemcpy3DParms {
        let rows = |ptr: *mut c_void| hipPitchedPtr {
            ptr,
            pitch: 40,
            xsize: 40,
            ysize: 4,
        };
        hipMemcpy3DParms {
            srcArray: null_mut(),
            srcPos: hipPos::default(),
            srcPtr: rows(self.a),
            dstArray: null_mut(),
            dstPos: hipPos { x: 0, y: 1, z: 0 },
            dstPtr: rows(self.b),
            extent: hipExtent {
                width: 40,
                height,
                depth: 5,
            },
            kind: 3,
        }
    }

    fn host(&mut self) -> hipHostNodeParams {
        hipHostNodeParams {
            fn_: Some(add_one),
            userData: (&raw mut *self.called).cast(),
        }
    }

    /// What the graph fetches when it scales by a factor and copies so many rows.
    fn expected(&self, factor: f32, rows: usize) -> Vec<u8> {
        let mut bytes = vec![0x40u8; BYTES];
        for (row, chunk) in bytes.chunks_mut(40).enumerate() {
            if (1..=rows).contains(&(row % 4)) {
                let first = (row - 1) * 10;
                for (i, float) in chunk.chunks_mut(4).enumerate() {
                    float.copy_from_slice(&((first + i) as f32 * factor).to_le_bytes());
                }
            }
        }
        bytes
    }

    fn free(self) {
        ok!(hipGraphDestroy(self.graph));
        ok!(hipModuleUnload(self.module));
        ok!(hipEventDestroy(self.event));
        ok!(hipFree(self.a));
        ok!(hipFree(self.b));
    }
}

fn node_type(node: hipGraphNode_t) -> u32 {
    let mut kind = 99;
    ok!(hipGraphNodeGetType(node, &mut kind));
    kind
}

#[test]
fn nodes_and_edges_are_listed() {
    let _serial = device();
    let sample = Sample::new();
    let Sample {
        graph,
        upload,
        fill,
        scale,
        copy,
        call,
        fetch,
        record,
        ..
    } = sample;
    let nodes = listed(|to, count| ok!(hipGraphGetNodes(graph, to, count)));
    assert_eq!(nodes, [upload, fill, scale, copy, call, fetch, record]);
    let kinds: Vec<u32> = nodes.into_iter().map(node_type).collect();
    assert_eq!(kinds, [1, 2, 0, 1, 3, 1, 7]);
    let roots = listed(|to, count| ok!(hipGraphGetRootNodes(graph, to, count)));
    assert_eq!(roots, [upload, fill, call]);
    let before = listed(|to, count| ok!(hipGraphNodeGetDependencies(copy, to, count)));
    assert_eq!(before, [fill, scale]);
    let after = listed(|to, count| ok!(hipGraphNodeGetDependentNodes(call, to, count)));
    assert_eq!(after, [record]);
    let (mut from, mut to, mut edges) = ([null_mut(); 8], [null_mut(); 8], 8);
    ok!(hipGraphGetEdges(
        graph,
        from.as_mut_ptr(),
        to.as_mut_ptr(),
        &mut edges
    ));
    assert_eq!(edges, 6);
    assert_eq!(from[..6], [upload, fill, scale, copy, call, fetch]);
    assert_eq!(to[..6], [scale, copy, copy, fetch, record, record]);
    assert_eq!((from[6], to[7]), (null_mut(), null_mut()));
    // Without a node, its edges are gone, too.
    ok!(hipGraphDestroyNode(copy));
    ok!(hipGraphGetEdges(graph, null_mut(), null_mut(), &mut edges));
    assert_eq!(edges, 3);
    let roots = listed(|to, count| ok!(hipGraphGetRootNodes(graph, to, count)));
    assert_eq!(roots, [upload, fill, call, fetch]);
    sample.free();
}

#[test]
fn what_a_node_was_given_can_be_read_back() {
    let _serial = device();
    let mut sample = Sample::new();
    let (mut memset, mut boxes, mut host) = (sample.memset(), sample.boxes(1), sample.host());
    sample.with_kernel(100.0, |kernel| {
        let mut got = *kernel;
        ok!(hipGraphKernelNodeGetParams(sample.scale, &mut got));
        assert_eq!(
            (got.func, got.blockDim, got.gridDim),
            (sample.function, kernel.blockDim, kernel.gridDim)
        );
        // SAFETY: the node's list of pointers to its arguments, which are its own.
        let argument = unsafe { *(*got.kernelParams.add(1)).cast::<f32>() };
        assert_eq!(argument, 2.0);
    });
    memset.value = 0;
    ok!(hipGraphMemsetNodeGetParams(sample.fill, &mut memset));
    assert_eq!(memset, sample.memset());
    ok!(hipGraphMemcpyNodeGetParams(sample.copy, &mut boxes));
    assert_eq!((boxes.extent, boxes.kind), (sample.boxes(3).extent, 3));
    assert_eq!(boxes.dstPtr.ptr, at(sample.b, 40));
    host.userData = null_mut();
    ok!(hipGraphHostNodeGetParams(sample.call, &mut host));
    assert_eq!(host.userData, (&raw mut *sample.called).cast());
    let mut recorded = null_mut();
    ok!(hipGraphEventRecordNodeGetEvent(
        sample.record,
        &mut recorded
    ));
    assert_eq!(recorded, sample.event);
    fails!(
        InvalidValue,
        hipGraphEventWaitNodeGetEvent(sample.record, &mut recorded)
    );
    fails!(
        InvalidValue,
        hipGraphMemsetNodeGetParams(sample.scale, &mut memset)
    );
    // A node stays of its type.
    fails!(
        InvalidValue,
        hipGraphMemsetNodeSetParams(sample.scale, &memset)
    );
    sample.free();
}

#[test]
fn nodes_change_from_launch_to_launch() {
    let _serial = device();
    let sample = Sample::new();
    let (mut exec, s) = (null_mut(), stream());
    let launched = |exec: hipGraphExec_t| {
        ok!(hipGraphLaunch(exec, s));
        ok!(hipStreamSynchronize(s));
        sample.output.clone()
    };
    ok!(hipGraphInstantiate(
        &mut exec,
        sample.graph,
        null_mut(),
        null_mut(),
        0
    ));
    assert_eq!(*sample.called, 0);
    for launch in 1..3 {
        assert!(launched(exec) == sample.expected(2.0, 3));
        assert_eq!(*sample.called, launch);
        ok!(hipEventQuery(sample.event));
    }
    sample.with_kernel(3.0, |kernel| {
        ok!(hipGraphExecKernelNodeSetParams(exec, sample.scale, kernel));
    });
    ok!(hipGraphExecMemcpyNodeSetParams(
        exec,
        sample.copy,
        &mut sample.boxes(2)
    ));
    ok!(hipGraphNodeSetEnabled(exec, sample.upload, 0));
    let mut enabled = 9;
    ok!(hipGraphNodeGetEnabled(exec, sample.upload, &mut enabled));
    assert_eq!(enabled, 0);
    fails!(InvalidValue, hipGraphNodeSetEnabled(exec, sample.call, 0));
    // Without the upload the kernel scales what it scaled before.
    assert!(launched(exec) == sample.expected(6.0, 2));
    // The graph itself did not change, and an instantiated one can take over its nodes' parameters.
    let (mut node, mut result) = (null_mut(), 9);
    ok!(hipGraphNodeSetEnabled(exec, sample.upload, 1));
    ok!(hipGraphExecUpdate(
        exec,
        sample.graph,
        &mut node,
        &mut result
    ));
    assert_eq!((node, result), (null_mut(), 0));
    assert!(launched(exec) == sample.expected(2.0, 3));
    sample.with_kernel(5.0, |kernel| {
        ok!(hipGraphKernelNodeSetParams(sample.scale, kernel));
    });
    assert!(launched(exec) == sample.expected(2.0, 3));
    ok!(hipGraphExecUpdate(
        exec,
        sample.graph,
        &mut node,
        &mut result
    ));
    assert!(launched(exec) == sample.expected(5.0, 3));
    ok!(hipGraphExecDestroy(exec));
    ok!(hipStreamDestroy(s));
    sample.free();
}

#[test]
fn clones_and_graphs_in_graphs() {
    let _serial = device();
    let sample = Sample::new();
    let (mut exec, mut nested, s) = (null_mut(), null_mut(), stream());
    ok!(hipGraphInstantiateWithFlags(&mut exec, sample.graph, 0));
    // A clone has nodes of its own, in the same places.
    let (mut clone, mut twin) = (null_mut(), null_mut());
    ok!(hipGraphClone(&mut clone, sample.graph));
    ok!(hipGraphNodeFindInClone(&mut twin, sample.call, clone));
    assert_ne!(twin, sample.call);
    assert_eq!(node_type(twin), 3);
    ok!(hipGraphDestroyNode(twin));
    fails!(InvalidValue, hipGraphNodeGetType(twin, &mut { 0 }));
    assert_eq!(node_type(sample.call), 3);
    fails!(
        InvalidValue,
        hipGraphNodeFindInClone(&mut twin, sample.call, clone)
    );
    let (mut node, mut result) = (null_mut(), 9);
    fails!(
        GraphExecUpdateFailure,
        hipGraphExecUpdate(exec, clone, &mut node, &mut result)
    );
    assert_eq!(result, 2);
    // A graph in a graph.
    let (mut outer, mut inner) = (null_mut(), null_mut());
    let (mut child, mut empty, mut wait) = (null_mut(), null_mut(), null_mut());
    ok!(hipGraphCreate(&mut outer, 0));
    ok!(hipGraphAddChildGraphNode(
        &mut child,
        outer,
        null(),
        0,
        sample.graph
    ));
    ok!(hipGraphAddEmptyNode(&mut empty, outer, &child, 1));
    ok!(hipGraphAddEventWaitNode(
        &mut wait,
        outer,
        &empty,
        1,
        sample.event
    ));
    assert_eq!([child, empty, wait].map(node_type), [4, 5, 6]);
    ok!(hipGraphChildGraphNodeGetGraph(child, &mut inner));
    assert_eq!(
        listed(|to, count| ok!(hipGraphGetNodes(inner, to, count))).len(),
        7
    );
    ok!(hipGraphInstantiateWithFlags(&mut nested, outer, 0));
    ok!(hipGraphLaunch(nested, s));
    assert_eq!(*sample.called, 1);
    assert!(sample.output == sample.expected(2.0, 3));
    ok!(hipGraphExecChildGraphNodeSetParams(nested, child, clone));
    ok!(hipGraphLaunch(nested, s));
    assert_eq!(*sample.called, 1, "the clone does not call");
    ok!(hipGraphDestroy(outer));
    fails!(InvalidHandle, hipGraphDestroy(inner));
    ok!(hipGraphDestroy(clone));
    for exec in [exec, nested] {
        ok!(hipGraphExecDestroy(exec));
    }
    ok!(hipStreamDestroy(s));
    sample.free();
}

#[test]
fn what_graphs_refuse() {
    let _serial = device();
    let (mut graph, mut other, mut exec) = (null_mut(), null_mut(), null_mut());
    let (mut a, mut b, mut c, mut node) = (null_mut(), null_mut(), null_mut(), null_mut());
    ok!(hipGraphCreate(&mut graph, 0));
    ok!(hipGraphCreate(&mut other, 0));
    ok!(hipGraphAddEmptyNode(&mut a, graph, null(), 0));
    ok!(hipGraphAddEmptyNode(&mut b, graph, &a, 1));
    ok!(hipGraphAddEmptyNode(&mut c, other, null(), 0));
    fails!(
        InvalidValue,
        hipGraphAddEmptyNode(null_mut(), graph, null(), 0)
    );
    fails!(
        InvalidValue,
        hipGraphAddEmptyNode(&mut node, BAD, null(), 0)
    );
    fails!(
        InvalidValue,
        hipGraphAddEmptyNode(&mut node, graph, null(), 1)
    );
    fails!(InvalidValue, hipGraphAddEmptyNode(&mut node, graph, &c, 1));
    fails!(
        InvalidValue,
        hipGraphAddEmptyNode(&mut node, graph, [a, a].as_ptr(), 2)
    );
    fails!(
        InvalidValue,
        hipGraphAddKernelNode(&mut node, graph, null(), 0, null())
    );
    fails!(
        InvalidValue,
        hipGraphAddEventRecordNode(&mut node, graph, null(), 0, BAD)
    );
    fails!(InvalidValue, hipGraphAddDependencies(graph, &a, &a, 1));
    fails!(InvalidValue, hipGraphAddDependencies(graph, &a, &b, 1));
    fails!(InvalidValue, hipGraphAddDependencies(graph, &a, &c, 1));
    fails!(InvalidValue, hipGraphRemoveDependencies(graph, &b, &a, 1));
    fails!(InvalidValue, hipGraphDestroyNode(BAD));
    // A circle is found when the graph is to run.
    ok!(hipGraphAddDependencies(graph, &b, &a, 1));
    fails!(
        InvalidValue,
        hipGraphInstantiateWithFlags(&mut exec, graph, 0)
    );
    assert!(last_fault().unwrap().contains("circle"));
    ok!(hipGraphRemoveDependencies(graph, &b, &a, 1));
    ok!(hipGraphInstantiateWithFlags(&mut exec, graph, 8));
    let mut flags = 0;
    ok!(hipGraphExecGetFlags(exec, &mut flags));
    assert_eq!(flags, 8);
    let memset = |element: u32, width: usize, height: usize, pitch: usize| hipMemsetParams {
        dst: 64 as *mut c_void,
        elementSize: element,
        height,
        pitch,
        value: 0,
        width,
    };
    for bad in [
        memset(3, 4, 1, 0),
        memset(4, 0, 1, 0),
        memset(4, 4, 2, 15),
        memset(1, 4, 0, 8),
    ] {
        fails!(
            InvalidValue,
            hipGraphAddMemsetNode(&mut node, graph, null(), 0, &bad)
        );
    }
    // SAFETY: integers and pointers.
    let mut boxes: HIP_MEMCPY3D = unsafe { std::mem::zeroed() };
    boxes.srcMemoryType = 10;
    boxes.dstMemoryType = 2;
    fails!(
        InvalidValue,
        hipDrvGraphAddMemcpyNode(&mut node, graph, null(), 0, &boxes, null_mut())
    );
    ok!(hipGraphExecDestroy(exec));
    ok!(hipGraphDestroy(graph));
    ok!(hipGraphDestroy(other));
    fails!(InvalidValue, hipGraphDestroyNode(a));
}

#[test]
fn boxes_are_copied() {
    let _serial = device();
    // Planes of 4 rows of 16 bytes.
    let source: Vec<u8> = (0..128).collect();
    let (mut a, mut graph, mut node, mut exec) = (malloc(128), null_mut(), null_mut(), null_mut());
    let mut host = vec![0xffu8; 128];
    ok!(hipMemcpy(a, source.as_ptr().cast(), 128, 1));
    let boxes = HIP_MEMCPY3D {
        srcXInBytes: 3,
        srcY: 1,
        srcZ: 0,
        srcLOD: 0,
        srcMemoryType: 2,
        srcHost: null(),
        srcDevice: a,
        srcArray: null_mut(),
        srcPitch: 16,
        srcHeight: 4,
        dstXInBytes: 0,
        dstY: 2,
        dstZ: 0,
        dstLOD: 0,
        dstMemoryType: 1,
        dstHost: host.as_mut_ptr().cast(),
        dstDevice: null_mut(),
        dstArray: null_mut(),
        dstPitch: 8,
        dstHeight: 4,
        WidthInBytes: 5,
        Height: 2,
        Depth: 2,
    };
    let mut expected = vec![0xffu8; 128];
    for (plane, row, byte) in
        (0..2).flat_map(|p| (0..2).flat_map(move |r| (0..5).map(move |b| (p, r, b))))
    {
        expected[plane * 32 + (row + 2) * 8 + byte] =
            source[plane * 64 + (row + 1) * 16 + 3 + byte];
    }
    ok!(hipDrvMemcpy3D(&boxes));
    assert_eq!(host, expected);
    host.fill(0xff);
    ok!(hipGraphCreate(&mut graph, 0));
    ok!(hipDrvGraphAddMemcpyNode(
        &mut node,
        graph,
        null(),
        0,
        &boxes,
        null_mut()
    ));
    ok!(hipGraphInstantiateWithFlags(&mut exec, graph, 0));
    ok!(hipGraphLaunch(exec, null_mut()));
    assert_eq!(host, expected);
    // SAFETY: integers and pointers.
    let mut parms: hipMemcpy3DParms = unsafe { std::mem::zeroed() };
    ok!(hipGraphMemcpyNodeGetParams(node, &mut parms));
    host.fill(0xff);
    ok!(hipMemcpy3D(&parms));
    assert_eq!(host, expected);
    host.fill(0xff);
    ok!(hipMemcpy3DAsync(&parms, null_mut()));
    ok!(hipDrvMemcpy3DAsync(&boxes, null_mut()));
    assert_eq!(host, expected);
    parms.extent.depth = 3;
    fails!(InvalidValue, hipMemcpy3D(&parms));
    ok!(hipGraphExecDestroy(exec));
    ok!(hipGraphDestroy(graph));
    ok!(hipFree(std::mem::replace(&mut a, null_mut())));
}
