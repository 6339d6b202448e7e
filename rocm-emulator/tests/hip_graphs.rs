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

#[test]
fn graphs_are_built_node_by_node() {
    let _serial = device();
    let (mut module, mut function) = (null_mut(), null_mut());
    ok!(hipModuleLoadData(
        &mut module,
        code(Target::Gfx1100).as_ptr().cast()
    ));
    ok!(hipModuleGetFunction(
        &mut function,
        module,
        c"scale".as_ptr()
    ));
    let (a, b, e) = (malloc(800), malloc(800), event());
    let mut called = 0u32;
    let input: Vec<u8> = (0..200).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let mut output = vec![0u8; 800];

    let (mut graph, mut upload, mut fill, mut scale, mut copy, mut call, mut fetch, mut record) = (
        null_mut(),
        null_mut(),
        null_mut(),
        null_mut(),
        null_mut(),
        null_mut(),
        null_mut(),
        null_mut(),
    );
    ok!(hipGraphCreate(&mut graph, 0));
    ok!(hipGraphAddMemcpyNode1D(
        &mut upload,
        graph,
        null(),
        0,
        a,
        input.as_ptr().cast(),
        800,
        1
    ));
    let memset = hipMemsetParams {
        dst: b,
        elementSize: 4,
        height: 1,
        pitch: 0,
        value: 0x4040_4040,
        width: 200,
    };
    ok!(hipGraphAddMemsetNode(&mut fill, graph, null(), 0, &memset));
    let (mut pointer, mut factor, mut count) = (a, 2f32, 200i32);
    let mut parameters: [*mut c_void; 3] = [
        (&raw mut pointer).cast(),
        (&raw mut factor).cast(),
        (&raw mut count).cast(),
    ];
    let kernel = hipKernelNodeParams {
        blockDim: dim3 { x: 128, y: 1, z: 1 },
        extra: null_mut(),
        func: function,
        gridDim: dim3 { x: 2, y: 1, z: 1 },
        kernelParams: parameters.as_mut_ptr(),
        sharedMemBytes: 0,
    };
    ok!(hipGraphAddKernelNode(
        &mut scale, graph, &upload, 1, &kernel
    ));
    // Rows of 40 bytes, the first three of every four of them, to the other buffer.
    let rows = |ptr: *mut c_void| hipPitchedPtr {
        ptr,
        pitch: 40,
        xsize: 40,
        ysize: 4,
    };
    let boxes = hipMemcpy3DParms {
        srcArray: null_mut(),
        srcPos: hipPos::default(),
        srcPtr: rows(a),
        dstArray: null_mut(),
        dstPos: hipPos { x: 0, y: 1, z: 0 },
        dstPtr: rows(b),
        extent: hipExtent {
            width: 40,
            height: 3,
            depth: 5,
        },
        kind: 3,
    };
    ok!(hipGraphAddMemcpyNode(
        &mut copy,
        graph,
        [scale, fill].as_ptr(),
        2,
        &boxes
    ));
    let host = hipHostNodeParams {
        fn_: Some(add_one),
        userData: (&raw mut called).cast(),
    };
    ok!(hipGraphAddHostNode(&mut call, graph, null(), 0, &host));
    ok!(hipGraphAddMemcpyNode1D(
        &mut fetch,
        graph,
        &copy,
        1,
        output.as_mut_ptr().cast(),
        b,
        800,
        2
    ));
    ok!(hipGraphAddEventRecordNode(&mut record, graph, null(), 0, e));
    // The record after the rest: dependencies can be added later.
    ok!(hipGraphAddDependencies(
        graph,
        [fetch, call].as_ptr(),
        [record, record].as_ptr(),
        2
    ));

    let nodes = listed(|to, count| ok!(hipGraphGetNodes(graph, to, count)));
    assert_eq!(nodes, [upload, fill, scale, copy, call, fetch, record]);
    let kinds: Vec<u32> = nodes
        .iter()
        .map(|&node| {
            let mut kind = 99;
            ok!(hipGraphNodeGetType(node, &mut kind));
            kind
        })
        .collect();
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

    // What a node was given can be read back; the arguments are the node's own.
    let (mut got, mut cleared, mut moved) = (kernel, memset, boxes);
    let mut called_by = host;
    factor = 100.0;
    ok!(hipGraphKernelNodeGetParams(scale, &mut got));
    assert_eq!(
        (got.func, got.blockDim, got.gridDim),
        (function, kernel.blockDim, kernel.gridDim)
    );
    // SAFETY: the node's list of pointers to its arguments.
    let argument = unsafe { *(*got.kernelParams.add(1)).cast::<f32>() };
    assert_eq!((argument, factor), (2.0, 100.0));
    ok!(hipGraphMemsetNodeGetParams(fill, &mut cleared));
    assert_eq!(cleared, memset);
    ok!(hipGraphMemcpyNodeGetParams(copy, &mut moved));
    assert_eq!((moved.extent, moved.kind), (boxes.extent, 3));
    assert_eq!(moved.dstPtr.ptr, at(b, 40));
    ok!(hipGraphHostNodeGetParams(call, &mut called_by));
    assert_eq!(called_by.userData, host.userData);
    let mut recorded = null_mut();
    ok!(hipGraphEventRecordNodeGetEvent(record, &mut recorded));
    assert_eq!(recorded, e);
    fails!(
        InvalidValue,
        hipGraphEventWaitNodeGetEvent(record, &mut recorded)
    );
    fails!(
        InvalidValue,
        hipGraphMemsetNodeGetParams(scale, &mut cleared)
    );

    // It runs, and what its nodes do can be changed from launch to launch.
    let mut expected = |factor: f32, rows: usize| {
        let mut bytes = vec![0x40u8; 800];
        for (row, chunk) in bytes.chunks_mut(40).enumerate() {
            if row % 4 > 0 && row % 4 <= rows {
                let first = (row - 1) * 10;
                for (i, float) in chunk.chunks_mut(4).enumerate() {
                    float.copy_from_slice(&((first + i) as f32 * factor).to_le_bytes());
                }
            }
        }
        bytes
    };
    let mut exec = null_mut();
    let s = stream();
    ok!(hipGraphInstantiate(
        &mut exec,
        graph,
        null_mut(),
        null_mut(),
        0
    ));
    assert_eq!(called, 0);
    for launch in 1..3 {
        ok!(hipGraphLaunch(exec, s));
        ok!(hipStreamSynchronize(s));
        assert_eq!((output == expected(2.0, 3), called), (true, launch));
        ok!(hipEventQuery(e));
    }
    factor = 3.0;
    ok!(hipGraphExecKernelNodeSetParams(exec, scale, &kernel));
    let smaller = hipMemcpy3DParms {
        extent: hipExtent {
            height: 2,
            ..boxes.extent
        },
        ..boxes
    };
    ok!(hipGraphExecMemcpyNodeSetParams(exec, copy, &mut {
        smaller
    }));
    ok!(hipGraphNodeSetEnabled(exec, upload, 0));
    let mut enabled = 9;
    ok!(hipGraphNodeGetEnabled(exec, upload, &mut enabled));
    assert_eq!(enabled, 0);
    fails!(InvalidValue, hipGraphNodeSetEnabled(exec, call, 0));
    ok!(hipGraphLaunch(exec, s));
    // Without the upload the kernel scales what it scaled before.
    assert!(output == expected(6.0, 2));
    // The graph itself did not change, and an instantiated one can take over another's parameters.
    let (mut error_node, mut result) = (null_mut(), 9);
    ok!(hipGraphNodeSetEnabled(exec, upload, 1));
    ok!(hipGraphExecUpdate(
        exec,
        graph,
        &mut error_node,
        &mut result
    ));
    assert_eq!((error_node, result), (null_mut(), 0));
    ok!(hipGraphLaunch(exec, s));
    assert!(output == expected(2.0, 3));
    ok!(hipGraphKernelNodeSetParams(scale, &kernel));
    ok!(hipGraphExecUpdate(
        exec,
        graph,
        &mut error_node,
        &mut result
    ));
    ok!(hipGraphLaunch(exec, s));
    assert!(output == expected(3.0, 3));

    // A clone has nodes of its own, in the same places.
    let (mut clone, mut twin, mut kind) = (null_mut(), null_mut(), 9);
    ok!(hipGraphClone(&mut clone, graph));
    ok!(hipGraphNodeFindInClone(&mut twin, call, clone));
    assert_ne!(twin, call);
    ok!(hipGraphNodeGetType(twin, &mut kind));
    assert_eq!(kind, 3);
    ok!(hipGraphDestroyNode(twin));
    fails!(InvalidValue, hipGraphNodeGetType(twin, &mut kind));
    ok!(hipGraphNodeGetType(call, &mut kind));
    fails!(
        InvalidValue,
        hipGraphNodeFindInClone(&mut twin, call, clone)
    );
    fails!(
        GraphExecUpdateFailure,
        hipGraphExecUpdate(exec, clone, &mut error_node, &mut result)
    );
    assert_eq!(result, 2);
    // A graph in a graph.
    let (mut outer, mut child, mut inner, mut empty, mut both) =
        (null_mut(), null_mut(), null_mut(), null_mut(), null_mut());
    ok!(hipGraphCreate(&mut outer, 0));
    ok!(hipGraphAddChildGraphNode(
        &mut child,
        outer,
        null(),
        0,
        graph
    ));
    ok!(hipGraphAddEmptyNode(&mut empty, outer, &child, 1));
    ok!(hipGraphAddEventWaitNode(&mut both, outer, &empty, 1, e));
    ok!(hipGraphChildGraphNodeGetGraph(child, &mut inner));
    assert_eq!(
        listed(|to, count| ok!(hipGraphGetNodes(inner, to, count))).len(),
        7
    );
    let before = called;
    let mut nested = null_mut();
    ok!(hipGraphInstantiateWithFlags(&mut nested, outer, 0));
    ok!(hipGraphLaunch(nested, s));
    assert_eq!(called, before + 1);
    ok!(hipGraphExecChildGraphNodeSetParams(nested, child, clone));
    ok!(hipGraphLaunch(nested, s));
    assert_eq!(called, before + 1, "the clone does not call");
    ok!(hipGraphDestroy(outer));
    fails!(InvalidHandle, hipGraphDestroy(inner));

    for graph in [graph, clone] {
        ok!(hipGraphDestroy(graph));
    }
    for exec in [exec, nested] {
        ok!(hipGraphExecDestroy(exec));
    }
    ok!(hipModuleUnload(module));
    for pointer in [a, b] {
        ok!(hipFree(pointer));
    }
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
