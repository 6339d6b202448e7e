//! What the kernels are told, laid out as they read it.

use crate::base::dtype::DeviceRepr;

candle_rocm_kernels::kernel_argument! { COMMUNICATION_PROBLEM,
    /// A step at one rank; the header says what the fields are.
    #[derive(Clone, Copy, Debug)]
    pub(super) struct CommunicationArguments {
        pub from: u64,
        pub to: u64,
        pub slots: u64,
        pub flags: u64,
        pub own_flag: u64,
        pub wanted: u64,
        pub abort: u64,
        pub state: u64,
        pub bytes: u64,
        pub memory_stride: u64,
        pub slot_stride: u64,
        pub total: u64,
        pub slot_bytes: u64,
        pub offset: u64,
        pub rows: u32,
        pub flag_stride: u32,
        pub waits: u32,
        pub lag: u32,
        pub sender: u32,
        pub world: u32,
        pub op: u32,
        pub ends_message: u32,
    }
}

// SAFETY: numbers, laid out by C's rules, as the kernel's parameter; there is no padding.
unsafe impl DeviceRepr for CommunicationArguments {}

candle_rocm_kernels::kernel_argument! { ALL_REDUCE_PROBLEM,
    /// An all-reduce in one launch; the header says what the fields are.
    #[derive(Clone, Copy, Debug)]
    pub(super) struct AllReduceArguments {
        pub from: u64,
        pub to: u64,
        pub boxes: u64,
        pub exchanged: u64,
        pub awaits: u64,
        pub doubt: u64,
        pub gave_up: u64,
        pub bytes: u64,
        pub piece: u32,
        pub areas: u32,
        pub area: u32,
        pub rank: u32,
        pub world: u32,
        pub op: u32,
        pub copies: u32,
        pub does: u32,
    }
}

// SAFETY: numbers, laid out by C's rules, as the kernel's parameter; there is no padding.
unsafe impl DeviceRepr for AllReduceArguments {}
