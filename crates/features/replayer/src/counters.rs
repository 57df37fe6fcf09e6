//! The processor's counters of cycles and instructions (perf_event_open(2)), where there are
//! any and the user may read them.

use std::ffi::c_int;

/// `struct perf_event_attr` as of its first published version (`PERF_ATTR_SIZE_VER0`).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
}

const HARDWARE: u32 = 0;
const CYCLES: u64 = 0;
const INSTRUCTIONS: u64 = 1;
// Bits of `flags`: disabled, inherit, exclude_kernel, exclude_hv.
const FLAGS: u64 = 1 | 1 << 1 | 1 << 5 | 1 << 6;
const ENABLE: libc::c_ulong = 0x2400;
const DISABLE: libc::c_ulong = 0x2401;
const RESET: libc::c_ulong = 0x2403;

/// Counters of this process and of the threads that it creates later.
pub struct Counters {
    files: [c_int; 2],
}

impl Counters {
    /// Opens them, disabled.
    pub fn open() -> Self {
        Self {
            files: [CYCLES, INSTRUCTIONS].map(open),
        }
    }

    /// Sets them to 0 and enables them.
    pub fn start(&self) {
        self.control(RESET);
        self.control(ENABLE);
    }

    /// Disables them and returns cycles and instructions; `None` where there is no counter.
    pub fn stop(&self) -> [Option<u64>; 2] {
        self.control(DISABLE);
        self.files.map(|file| {
            let mut value = 0_u64;
            let bytes = size_of::<u64>();
            // SAFETY: `value` has so many bytes.
            let read = unsafe { libc::read(file, (&raw mut value).cast(), bytes) };
            // A virtual machine may have counters that never count.
            (read == bytes as isize && value > 0).then_some(value)
        })
    }

    fn control(&self, request: libc::c_ulong) {
        for file in self.files {
            // SAFETY: these requests take no pointer.
            unsafe { libc::ioctl(file, request, 0) };
        }
    }
}

fn open(config: u64) -> c_int {
    let attributes = Attributes {
        kind: HARDWARE,
        size: size_of::<Attributes>() as u32,
        config,
        flags: FLAGS,
        ..Attributes::default()
    };
    // SAFETY: the attributes are valid during the call and have the size that they name.
    let file = unsafe {
        let this_process = 0;
        let (any_processor, no_group, no_flags) = (-1, -1, 0);
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            this_process,
            any_processor,
            no_group,
            no_flags,
        )
    };
    c_int::try_from(file).unwrap_or(-1)
}
