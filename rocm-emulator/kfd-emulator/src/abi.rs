//! What the amdgpu driver's compute interface (`/dev/kfd`) looks like: Linux's `kfd_ioctl.h`, and HSA's structures in
//! memory (`amd_hsa_signal.h`, `amd_hsa_queue.h`, `hsa.h`).

/// The letter of the driver's commands.
pub const LETTER: u32 = b'K' as u32;

/// The interface's version that is answered. AMD's runtime lays memory over reserved addresses since 1.15. The debugger's
/// commands, which it has as well, are not there, as the topology says.
pub const VERSION: (u32, u32) = (1, 17);

/// The structures that commands take. All of their values are valid, zero among them.
///
/// # Safety
/// Implementors are plain numbers, without padding that matters.
pub unsafe trait Plain: Copy {}

macro_rules! structures {
    ($($(#[$about:meta])* $name:ident { $($field:ident: $type:ty),* })*) => {
        $(
            $(#[$about])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug)]
            #[allow(missing_docs)]
            pub struct $name {
                $(pub $field: $type),*
            }
            // SAFETY: numbers alone.
            unsafe impl Plain for $name {}
        )*
    };
}

structures! {
    /// `kfd_ioctl_get_version_args`.
    GetVersion { major: u32, minor: u32 }
    /// `kfd_ioctl_create_queue_args`.
    CreateQueue {
        ring: u64, write_pointer: u64, read_pointer: u64, doorbell_offset: u64,
        ring_size: u32, gpu: u32, kind: u32, percentage: u32, priority: u32, queue: u32,
        eop_buffer: u64, eop_buffer_size: u64, save_area: u64, save_area_size: u32, stack_size: u32,
        engine: u32, pad: u32
    }
    /// `kfd_ioctl_destroy_queue_args`.
    DestroyQueue { queue: u32, pad: u32 }
    /// `kfd_ioctl_get_clock_counters_args`.
    GetClocks { gpu_clock: u64, cpu_clock: u64, system_clock: u64, system_frequency: u64, gpu: u32, pad: u32 }
    /// `kfd_process_device_apertures`.
    Apertures {
        lds: u64, lds_limit: u64, scratch: u64, scratch_limit: u64, memory: u64, memory_limit: u64,
        gpu: u32, pad: u32
    }
    /// `kfd_ioctl_get_process_apertures_new_args`.
    GetApertures { apertures: u64, count: u32, pad: u32 }
    /// `kfd_ioctl_create_event_args`.
    CreateEvent { page: u64, trigger: u32, kind: u32, auto_reset: u32, node: u32, event: u32, slot: u32 }
    /// `kfd_ioctl_destroy_event_args`, `_set_` and `_reset_`.
    Event { event: u32, pad: u32 }
    /// `kfd_event_data`: what happened to memory, or the age of a signal in the first quadword.
    EventData { data: [u64; 4], extension: u64, event: u32, pad: u32 }
    /// `kfd_ioctl_wait_events_args`.
    WaitEvents { events: u64, count: u32, all: u32, timeout: u32, result: u32 }
    /// `kfd_ioctl_get_tile_config_args`.
    GetTiles { tiles: u64, macro_tiles: u64, tile_count: u32, macro_count: u32, gpu: u32, address: u32, banks: u32, ranks: u32 }
    /// `kfd_ioctl_alloc_memory_of_gpu_args`.
    Allocate { address: u64, size: u64, handle: u64, offset: u64, gpu: u32, flags: u32 }
    /// `kfd_ioctl_free_memory_of_gpu_args`.
    Free { handle: u64 }
    /// `kfd_ioctl_map_memory_to_gpu_args`, and `_unmap_`.
    Map { handle: u64, gpus: u64, count: u32, done: u32 }
    /// `kfd_ioctl_get_available_memory_args`.
    GetAvailable { available: u64, gpu: u32, pad: u32 }
    /// `kfd_ioctl_export_dmabuf_args`.
    Export { handle: u64, flags: u32, file: i32 }
    /// `kfd_ioctl_alloc_queue_gws_args`.
    AllocateSync { queue: u32, count: u32, first: u32, pad: u32 }
    /// `kfd_ioctl_svm_args` without the attributes that follow it.
    SharedRange { start: u64, size: u64, operation: u32, attributes: u32 }
    /// `kfd_ioctl_svm_attribute`.
    Attribute { kind: u32, value: u32 }
    /// `kfd_ioctl_set_xnack_mode_args`.
    SetRetry { enabled: i32 }
    /// Commands that are answered without a look at them.
    Anything {}
}

/// Kinds of queues.
pub mod queue_kind {
    #![allow(missing_docs)]
    pub const AQL: u32 = 2;
}

/// `KFD_IOC_ALLOC_MEM_FLAGS_*`.
pub mod allocation {
    #![allow(missing_docs)]
    pub const VRAM: u32 = 1 << 0;
    pub const HOST: u32 = 1 << 1;
    pub const USER: u32 = 1 << 2;
    pub const DOORBELL: u32 = 1 << 3;
    pub const REGISTERS: u32 = 1 << 4;
    pub const QUEUE: u32 = 1 << 27;
}

/// `KFD_IOC_EVENT_SIGNAL`: the kind of events that queues and the host set.
pub const SIGNAL_EVENT: u32 = 0;
/// `KFD_IOC_WAIT_RESULT_*`.
pub const WAIT_COMPLETE: u32 = 0;
/// See [`WAIT_COMPLETE`].
pub const WAIT_TIMEOUT: u32 = 1;
/// A wait without end.
pub const FOREVER: u32 = u32::MAX;

/// `KFD_IOCTL_SVM_OP_SET_ATTR`; the other operation reads.
pub const SHARED_SET: u32 = 0;
/// `KFD_IOCTL_SVM_ATTR_*`.
pub mod shared {
    #![allow(missing_docs)]
    pub const PREFERRED: u32 = 0;
    pub const PREFETCH: u32 = 1;
    pub const ACCESS: u32 = 2;
    pub const ACCESS_IN_PLACE: u32 = 3;
    pub const NO_ACCESS: u32 = 4;
    pub const SET_FLAGS: u32 = 5;
    pub const CLEAR_FLAGS: u32 = 6;
    pub const GRANULARITY: u32 = 7;
    /// `KFD_IOCTL_SVM_FLAG_GPU_ALWAYS_MAPPED`, which the areas have that hold a stopped queue's wavefronts.
    pub const ALWAYS_MAPPED: u32 = 0x40;
}

/// Where things are in `amd_signal_t`.
pub mod signal {
    #![allow(missing_docs)]
    pub const VALUE: u64 = 8;
    pub const EVENT: u64 = 24;
    pub const START: u64 = 32;
    pub const END: u64 = 40;
    pub const BYTES: u64 = 64;
}

/// Where things are in `amd_queue_t`.
pub mod amd_queue {
    #![allow(missing_docs)]
    pub const WRITE_INDEX: u64 = 56;
    pub const INACTIVE_SIGNAL: u64 = 192;
}
