//! Devices and contexts.

use std::cell::RefCell;

use super::prelude::*;
use crate::exec::MAX_WORKGROUP;
use crate::hip::capture::refuse_during_any_capture;
use crate::hip::facts;
use crate::hip::handles::Kind;
use crate::hip::late::late;
use crate::hip::state::{runtime, Device, Runtime, CURRENT};

/// The release: major * 10^7 + minor * 10^5 + patch.
fn hip_version() -> Result<c_int> {
    Ok(runtime()?.settings.hip_version)
}

pub unsafe fn hipInit(flags: c_uint) -> Result {
    runtime()?;
    match flags {
        0 => Ok(()),
        _ => Err(HipError::new(
            Code::InvalidValue,
            format!("hipInit flags {flags:#x}"),
        )),
    }
}

pub unsafe fn hipDriverGetVersion(version: *mut c_int) -> Result {
    // SAFETY: the program's promise.
    unsafe { out(version, hip_version()?) }
}

pub unsafe fn hipRuntimeGetVersion(version: *mut c_int) -> Result {
    // SAFETY: the program's promise.
    unsafe { out(version, hip_version()?) }
}

pub unsafe fn hipGetDeviceCount(count: *mut c_int) -> Result {
    // SAFETY: the program's promise.
    unsafe { out(count, runtime()?.devices.len() as c_int) }
}

pub unsafe fn hipGetDevice(device: *mut c_int) -> Result {
    // SAFETY: the program's promise.
    unsafe { out(device, runtime()?.current().index as c_int) }
}

pub unsafe fn hipSetDevice(device: c_int) -> Result {
    CURRENT.set(runtime()?.device(device)?.index);
    Ok(())
}

pub unsafe fn hipDeviceGet(device: *mut hipDevice_t, ordinal: c_int) -> Result {
    // SAFETY: the program's promise.
    unsafe { out(device, runtime()?.device(ordinal)?.index as hipDevice_t) }
}

pub unsafe fn hipDeviceGetName(name: *mut c_char, len: c_int, device: hipDevice_t) -> Result {
    let device = runtime()?.device(device)?;
    // SAFETY: the program's promise.
    unsafe { text_out(name, len, &facts::product_name(device.target)) }
}

fn uuid(device: &Device) -> hipUUID {
    let text = format!("rocmemu-{:08}", device.card);
    let mut bytes = [0; 16];
    for (to, from) in bytes.iter_mut().zip(text.bytes()) {
        *to = from as c_char;
    }
    hipUUID { bytes }
}

pub unsafe fn hipDeviceGetUuid(to: *mut hipUUID, device: hipDevice_t) -> Result {
    let device = runtime()?.device(device)?;
    // SAFETY: the program's promise.
    unsafe { out(to, uuid(device)) }
}

pub unsafe fn hipDeviceComputeCapability(
    major: *mut c_int,
    minor: *mut c_int,
    device: hipDevice_t,
) -> Result {
    let version = runtime()?.device(device)?.version();
    // SAFETY: the program's promise.
    unsafe {
        out(major, version.0)?;
        out(minor, version.1)
    }
}

pub unsafe fn hipDeviceTotalMem(bytes: *mut usize, device: hipDevice_t) -> Result {
    let device = runtime()?.device(device)?;
    // SAFETY: the program's promise.
    unsafe { out(bytes, device.memory.total() as usize) }
}

/// Copy text into a zeroed array, NUL included.
fn characters<const N: usize>(text: &str) -> [c_char; N] {
    let mut array = [0; N];
    for (to, from) in array[..N - 1].iter_mut().zip(text.bytes()) {
        *to = from as c_char;
    }
    array
}

fn properties(device: &Device) -> hipDeviceProp_tR0600 {
    let target = device.target;
    let (unit, product) = (target.unit(), target.facts().product);
    let (major, minor) = device.version();
    let lanes = unit.wavefront;
    let registers = (target.facts().vgprs * unit.simds * lanes) as c_int;
    let threads = unit.threads() as c_int;
    let lds_of_block = facts::lds_per_block(target) as usize;
    // SAFETY: integers, characters and raw pointers only; zero is a value of each.
    let zeroed: hipDeviceProp_tR0600 = unsafe { std::mem::zeroed() };
    hipDeviceProp_tR0600 {
        name: characters(&facts::product_name(target)),
        uuid: uuid(device),
        totalGlobalMem: device.memory.total() as usize,
        sharedMemPerBlock: lds_of_block,
        regsPerBlock: registers,
        warpSize: lanes as c_int,
        memPitch: i32::MAX as usize,
        maxThreadsPerBlock: MAX_WORKGROUP as c_int,
        maxThreadsDim: [MAX_WORKGROUP as c_int; 3],
        maxGridSize: facts::MAX_GRID,
        clockRate: (product.clock_mhz * 1000) as c_int,
        totalConstMem: i32::MAX as usize,
        major,
        minor,
        textureAlignment: 256,
        texturePitchAlignment: 256,
        multiProcessorCount: target.multiprocessors() as c_int,
        canMapHostMemory: 1,
        surfaceAlignment: 256,
        concurrentKernels: 1,
        ECCEnabled: c_int::from(target.facts().qualifiers.contains("sramecc+")),
        pciBusID: device.pci_bus(),
        asyncEngineCount: 2,
        unifiedAddressing: 1,
        memoryClockRate: (product.memory.clock_mhz * 1000) as c_int,
        memoryBusWidth: product.memory.bus_bits as c_int,
        l2CacheSize: (product.l2_kib << 10) as c_int,
        maxThreadsPerMultiProcessor: threads,
        streamPrioritiesSupported: 1,
        globalL1CacheSupported: 1,
        localL1CacheSupported: 1,
        sharedMemPerMultiprocessor: unit.lds_bytes as usize,
        regsPerMultiprocessor: registers,
        managedMemory: 1,
        concurrentManagedAccess: 1,
        cooperativeLaunch: 1,
        canUseHostPointerForRegisteredMem: 1,
        sharedMemPerBlockOptin: lds_of_block,
        maxBlocksPerMultiProcessor: threads / lanes as c_int,
        hostRegisterSupported: 1,
        memoryPoolsSupported: 1,
        gcnArchName: characters(&device.hip_name()),
        maxSharedMemoryPerMultiProcessor: unit.lds_bytes as usize,
        clockInstructionRate: 100_000,
        // hipDeviceArch_t: the first thirteen features, 3-D grids; no surfaces, no dynamic parallelism.
        arch: 0x1fff | 1 << 15,
        isLargeBar: 1,
        ..zeroed
    }
}

pub unsafe fn hipGetDevicePropertiesR0600(to: *mut hipDeviceProp_tR0600, device: c_int) -> Result {
    let device = runtime()?.device(device)?;
    // SAFETY: the program's promise.
    unsafe { out(to, properties(device)) }
}

pub unsafe fn hipGetDeviceProperties(to: *mut hipDeviceProp_tR0000, device: c_int) -> Result {
    // SAFETY: the program's promise.
    unsafe { hipGetDevicePropertiesR0000(to, device) }
}

pub unsafe fn hipGetDevicePropertiesR0000(to: *mut hipDeviceProp_tR0000, device: c_int) -> Result {
    let device = runtime()?.device(device)?;
    let new = properties(device);
    // SAFETY: integers, characters and raw pointers only; zero is a value of each.
    let zeroed: hipDeviceProp_tR0000 = unsafe { std::mem::zeroed() };
    let old = hipDeviceProp_tR0000 {
        name: new.name,
        totalGlobalMem: new.totalGlobalMem,
        sharedMemPerBlock: new.sharedMemPerBlock,
        regsPerBlock: new.regsPerBlock,
        warpSize: new.warpSize,
        maxThreadsPerBlock: new.maxThreadsPerBlock,
        maxThreadsDim: new.maxThreadsDim,
        maxGridSize: new.maxGridSize,
        clockRate: new.clockRate,
        memoryClockRate: new.memoryClockRate,
        memoryBusWidth: new.memoryBusWidth,
        totalConstMem: new.totalConstMem,
        major: new.major,
        minor: new.minor,
        multiProcessorCount: new.multiProcessorCount,
        l2CacheSize: new.l2CacheSize,
        maxThreadsPerMultiProcessor: new.maxThreadsPerMultiProcessor,
        clockInstructionRate: new.clockInstructionRate,
        arch: new.arch,
        concurrentKernels: new.concurrentKernels,
        pciBusID: new.pciBusID,
        maxSharedMemoryPerMultiProcessor: new.maxSharedMemoryPerMultiProcessor,
        canMapHostMemory: new.canMapHostMemory,
        // The processor's digits as a number, for those that have no letter among them.
        gcnArch: device.target.name()[3..].parse().unwrap_or(0),
        gcnArchName: new.gcnArchName,
        memPitch: new.memPitch,
        textureAlignment: new.textureAlignment,
        texturePitchAlignment: new.texturePitchAlignment,
        ECCEnabled: new.ECCEnabled,
        isLargeBar: new.isLargeBar,
        managedMemory: new.managedMemory,
        concurrentManagedAccess: new.concurrentManagedAccess,
        cooperativeLaunch: new.cooperativeLaunch,
        ..zeroed
    };
    // SAFETY: the program's promise.
    unsafe { out(to, old) }
}

pub unsafe fn hipDeviceGetAttribute(
    value: *mut c_int,
    attribute: hipDeviceAttribute_t,
    device: c_int,
) -> Result {
    let device = runtime()?.device(device)?;
    let p = properties(device);
    let clamp = |bytes: usize| c_int::try_from(bytes).unwrap_or(c_int::MAX);
    let found = match attribute {
        0 => p.ECCEnabled,
        2 => p.asyncEngineCount,
        3 => p.canMapHostMemory,
        4 => p.canUseHostPointerForRegisteredMem,
        5 => p.clockRate,
        8 => p.concurrentKernels,
        9 => p.concurrentManagedAccess,
        10 => p.cooperativeLaunch,
        14 => p.globalL1CacheSupported,
        19 => p.l2CacheSize,
        20 => p.localL1CacheSupported,
        23 => p.major,
        24 => p.managedMemory,
        25 => p.maxBlocksPerMultiProcessor,
        26 => p.maxThreadsDim[0],
        27 => p.maxThreadsDim[1],
        28 => p.maxThreadsDim[2],
        29 => p.maxGridSize[0],
        30 => p.maxGridSize[1],
        31 => p.maxGridSize[2],
        55 => p.maxThreadsDim[0],
        56 => p.maxThreadsPerBlock,
        57 => p.maxThreadsPerMultiProcessor,
        58 => clamp(p.memPitch),
        59 => p.memoryBusWidth,
        60 => p.memoryClockRate,
        61 => p.minor,
        63 => p.multiProcessorCount,
        67 => p.pciBusID,
        68 => p.pciDeviceID,
        69 => p.pciDomainID,
        71 => p.regsPerBlock,
        72 => p.regsPerMultiprocessor,
        73 => clamp(p.reservedSharedMemPerBlock),
        74 => clamp(p.sharedMemPerBlock),
        75 => clamp(p.sharedMemPerBlockOptin),
        76 => clamp(p.sharedMemPerMultiprocessor),
        78 => p.streamPrioritiesSupported,
        79 => clamp(p.surfaceAlignment),
        81 => clamp(p.textureAlignment),
        82 => clamp(p.texturePitchAlignment),
        83 => clamp(p.totalConstMem),
        84 => clamp(p.totalGlobalMem),
        85 => p.unifiedAddressing,
        87 => p.warpSize,
        88 => p.memoryPoolsSupported,
        90 => p.hostRegisterSupported,
        10000 => p.clockInstructionRate,
        10002 => clamp(p.maxSharedMemoryPerMultiProcessor),
        10011 => p.isLargeBar,
        10016 => 1,
        10015 => p.multiProcessorCount,
        10017 => p.clockInstructionRate,
        10018 => 1,
        10019 => device.target.facts().vgprs.min(512) as c_int,
        10020 => device.target.facts().product.pci_id as c_int,
        // The rest of HIP's list: textures, surfaces, multi-board and peer features, which are not there.
        1..=94 | 10001..=10021 => 0,
        _ => {
            return Err(HipError::new(
                Code::InvalidValue,
                format!("device attribute {attribute}"),
            ))
        }
    };
    // SAFETY: the program's promise.
    unsafe { out(value, found) }
}

fn pci_id(device: &Device) -> String {
    format!("0000:{:02x}:00.0", device.pci_bus())
}

pub unsafe fn hipDeviceGetPCIBusId(id: *mut c_char, len: c_int, device: c_int) -> Result {
    let device = runtime()?.device(device)?;
    // SAFETY: the program's promise.
    unsafe { text_out(id, len, &pci_id(device)) }
}

pub unsafe fn hipDeviceGetByPCIBusId(device: *mut c_int, id: *const c_char) -> Result {
    // SAFETY: the program's promise.
    let id = unsafe { text(id) }?;
    let found = runtime()?
        .devices
        .iter()
        .find(|device| pci_id(device).eq_ignore_ascii_case(id))
        .ok_or_else(|| HipError::new(Code::InvalidValue, format!("no device at PCI {id}")))?;
    // SAFETY: the program's promise.
    unsafe { out(device, found.index as c_int) }
}

pub unsafe fn hipDeviceSynchronize() -> Result {
    let runtime = runtime()?;
    synchronize(runtime, runtime.current())
}

fn synchronize(runtime: &Runtime, device: &Device) -> Result {
    refuse_during_any_capture()?;
    for stream in runtime.streams_of(device) {
        stream.synchronize(runtime)?;
    }
    if let Some(late) = late(runtime) {
        // Work of streams that were destroyed.
        late.synchronize_device(runtime, device);
    }
    device.healthy()
}

pub unsafe fn hipDeviceReset() -> Result {
    let runtime = runtime()?;
    if let Some(late) = late(runtime) {
        late.synchronize_device(runtime, runtime.current());
    }
    runtime.reset(runtime.current());
    Ok(())
}

pub unsafe fn hipDeviceGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) -> Result {
    // SAFETY: the program's promise.
    unsafe {
        optional_out(least, 1)?;
        optional_out(greatest, -1)
    }
}

pub unsafe fn hipDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) -> Result {
    let runtime = runtime()?;
    let (device, peer) = (runtime.device(device)?, runtime.device(peer)?);
    let can_access = runtime.settings.peers && device.index != peer.index;
    // SAFETY: the program's promise.
    unsafe { out(can, can_access.into()) }
}

/// The current device and another one that it can reach.
fn peer_of_current(peer: c_int) -> Result<(&'static Device, &'static Device)> {
    let runtime = runtime()?;
    let (current, peer) = (runtime.current(), runtime.device(peer)?);
    if current.index == peer.index {
        return Err(Code::InvalidDevice.into());
    }
    Ok((current, peer))
}

pub unsafe fn hipDeviceEnablePeerAccess(peer: c_int, flags: c_uint) -> Result {
    let (current, peer) = peer_of_current(peer)?;
    if flags != 0 {
        return Err(Code::InvalidValue.into());
    }
    if !runtime()?.settings.peers {
        return Err(Code::PeerAccessUnsupported.into());
    }
    match current.memory.reach(&peer.memory) {
        true => Ok(()),
        false => Err(Code::PeerAccessAlreadyEnabled.into()),
    }
}

pub unsafe fn hipDeviceDisablePeerAccess(peer: c_int) -> Result {
    let (current, peer) = peer_of_current(peer)?;
    match current.memory.leave(&peer.memory) {
        true => Ok(()),
        false => Err(Code::PeerAccessNotEnabled.into()),
    }
}

/// Scheduling, mapped host memory, local memory resize.
const DEVICE_FLAGS: c_uint = 0x1f;

pub unsafe fn hipSetDeviceFlags(flags: c_uint) -> Result {
    if flags & !DEVICE_FLAGS != 0 {
        return Err(HipError::new(
            Code::InvalidValue,
            format!("device flags {flags:#x}"),
        ));
    }
    *runtime()?.current().flags.lock() = flags;
    Ok(())
}

pub unsafe fn hipGetDeviceFlags(flags: *mut c_uint) -> Result {
    // SAFETY: the program's promise.
    unsafe { out(flags, *runtime()?.current().flags.lock()) }
}

pub unsafe fn hipDeviceGetLimit(value: *mut usize, limit: hipLimit_t) -> Result {
    let found = match limit {
        // Stack of a work-item, device malloc heap (there is none).
        0 => 16 << 10,
        1 | 2 => 0,
        _ => return Err(Code::UnsupportedLimit.into()),
    };
    // SAFETY: the program's promise.
    unsafe { out(value, found) }
}

pub unsafe fn hipDeviceSetLimit(limit: hipLimit_t, _value: usize) -> Result {
    match limit {
        // Scratch is as large as a kernel asks for.
        0 => Ok(()),
        _ => Err(Code::UnsupportedLimit.into()),
    }
}

pub unsafe fn hipDeviceSetCacheConfig(_config: hipFuncCache_t) -> Result {
    runtime().map(|_| ())
}

pub unsafe fn hipDeviceGetCacheConfig(config: *mut hipFuncCache_t) -> Result {
    // SAFETY: the program's promise.
    unsafe { out(config, 0) }
}

pub unsafe fn hipDeviceSetSharedMemConfig(_config: hipSharedMemConfig) -> Result {
    runtime().map(|_| ())
}

pub unsafe fn hipDeviceGetSharedMemConfig(config: *mut hipSharedMemConfig) -> Result {
    // SAFETY: the program's promise.
    unsafe { out(config, 0) }
}

pub unsafe fn hipProfilerStart() -> Result {
    runtime().map(|_| ())
}

pub unsafe fn hipProfilerStop() -> Result {
    runtime().map(|_| ())
}

thread_local! {
    /// Devices below the current one on the context stack.
    static CONTEXTS: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// A device has one context, the primary one; its handle is this and the ordinal.
const CONTEXT_TAG: u64 = Kind::Context.tag();

fn context(device: &Device) -> hipCtx_t {
    (CONTEXT_TAG | (device.index as u64 + 1) << 4) as hipCtx_t
}

fn device_of(runtime: &Runtime, handle: hipCtx_t) -> Result<&Device> {
    runtime
        .devices
        .iter()
        .find(|device| context(device) == handle)
        .ok_or_else(|| Code::InvalidContext.into())
}

pub unsafe fn hipDevicePrimaryCtxRetain(to: *mut hipCtx_t, device: hipDevice_t) -> Result {
    let device = runtime()?.device(device)?;
    // SAFETY: the program's promise.
    unsafe { out(to, context(device)) }
}

pub unsafe fn hipDevicePrimaryCtxRelease(device: hipDevice_t) -> Result {
    runtime()?.device(device).map(|_| ())
}

pub unsafe fn hipDevicePrimaryCtxReset(device: hipDevice_t) -> Result {
    let runtime = runtime()?;
    runtime.reset(runtime.device(device)?);
    Ok(())
}

pub unsafe fn hipDevicePrimaryCtxGetState(
    device: hipDevice_t,
    flags: *mut c_uint,
    active: *mut c_int,
) -> Result {
    let device = runtime()?.device(device)?;
    // SAFETY: the program's promise.
    unsafe {
        optional_out(flags, *device.flags.lock())?;
        optional_out(active, 1)
    }
}

pub unsafe fn hipDevicePrimaryCtxSetFlags(device: hipDevice_t, flags: c_uint) -> Result {
    let device = runtime()?.device(device)?;
    if flags & !DEVICE_FLAGS != 0 {
        return Err(HipError::new(
            Code::InvalidValue,
            format!("context flags {flags:#x}"),
        ));
    }
    *device.flags.lock() = flags;
    Ok(())
}

pub unsafe fn hipCtxCreate(to: *mut hipCtx_t, _flags: c_uint, device: hipDevice_t) -> Result {
    let device = runtime()?.device(device)?;
    // SAFETY: the program's promise.
    unsafe {
        out(to, context(device))?;
        hipCtxPushCurrent(context(device))
    }
}

pub unsafe fn hipCtxDestroy(handle: hipCtx_t) -> Result {
    device_of(runtime()?, handle).map(|_| ())
}

pub unsafe fn hipCtxGetCurrent(to: *mut hipCtx_t) -> Result {
    // SAFETY: the program's promise.
    unsafe { out(to, context(runtime()?.current())) }
}

pub unsafe fn hipCtxSetCurrent(handle: hipCtx_t) -> Result {
    let runtime = runtime()?;
    // Null unbinds, after which HIP works on the current device all the same.
    if !handle.is_null() {
        CURRENT.set(device_of(runtime, handle)?.index);
    }
    Ok(())
}

pub unsafe fn hipCtxPushCurrent(handle: hipCtx_t) -> Result {
    let device = device_of(runtime()?, handle)?;
    CONTEXTS.with_borrow_mut(|stack| stack.push(CURRENT.replace(device.index)));
    Ok(())
}

pub unsafe fn hipCtxPopCurrent(to: *mut hipCtx_t) -> Result {
    let runtime = runtime()?;
    let below = CONTEXTS
        .with_borrow_mut(Vec::pop)
        .ok_or(Code::InvalidContext)?;
    // SAFETY: the program's promise.
    unsafe { optional_out(to, context(runtime.current())) }?;
    CURRENT.set(below);
    Ok(())
}

pub unsafe fn hipCtxGetDevice(device: *mut hipDevice_t) -> Result {
    // SAFETY: the program's promise.
    unsafe { hipGetDevice(device) }
}

pub unsafe fn hipCtxGetApiVersion(handle: hipCtx_t, version: *mut c_uint) -> Result {
    device_of(runtime()?, handle)?;
    // SAFETY: the program's promise. HIP documents that this is always 4.
    unsafe { out(version, 4) }
}

pub unsafe fn hipCtxGetFlags(flags: *mut c_uint) -> Result {
    // SAFETY: the program's promise.
    unsafe { hipGetDeviceFlags(flags) }
}

pub unsafe fn hipCtxSynchronize() -> Result {
    // SAFETY: takes no pointers.
    unsafe { hipDeviceSynchronize() }
}
