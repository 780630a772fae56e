//! The one program of a guest: it builds the network that its orders say, has the applications of all hosts talk, writes down what
//! came of it, and switches the machine off.
//!
//! `build.rs` has it compiled, with crate `knee_traffic` and nothing else, for a static program without a C library.
#![no_std]
#![no_main]

extern crate alloc;

#[path = "../src/guest.rs"]
mod guest;
mod kernel;
mod sys;

use alloc::ffi::CString;
use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::CStr;

use guest::{ModuleOrder, Orders, Records, Step};
use kernel::Kernel;
use knee_traffic::bytes::Plain as _;
use knee_traffic::{Fault, prepare};
use sys::{Fd, File, call, fail, monotonic_ns, need};

/// From the end of the preparations to time 0 of the run.
const BEFORE_ZERO_NS: u64 = 100_000_000;

#[unsafe(no_mangle)]
extern "C" fn begin() -> ! {
    let proc = c"proc".as_ptr() as usize;
    // SAFETY: strings that end with a zero byte.
    need("/proc", unsafe { call(sys::MOUNT, &[proc, c"/proc".as_ptr() as usize, proc]) });
    let mut orders = read_orders();
    let traffic = core::mem::take(&mut orders.traffic);
    for module in &orders.modules {
        load(module);
    }
    let mut kernel = Kernel::new(&orders, traffic.flows.len() + traffic.pings.len());
    for step in &orders.steps {
        take(step, &mut kernel);
    }
    kernel.prepare(&orders);
    let mut program = match prepare(traffic, kernel) {
        Ok(program) => program,
        Err(Fault::Plan(why)) => fail(&why),
        Err(Fault::Flow(_, why)) => need("a connection", Err(why)),
    };
    if orders.captures {
        write_file("/proc/knee_captures", "on");
    }
    let mut counts = Vec::new();
    program.os().count(orders.hosts, false, &mut counts);
    program.os().zero_ns = (monotonic_ns() / BEFORE_ZERO_NS + 2) * BEFORE_ZERO_NS;
    let traffic = program.run(|| false);
    program.os().count(orders.hosts, true, &mut counts);
    if orders.captures {
        write_captures();
    }
    let Kernel { zero_ns, queues, .. } = program.os();
    let records = Records { zero_ns: *zero_ns, traffic, queues: core::mem::take(queues), counts };
    // Only now: to write a file reads the clock, and that takes time.
    let mut result = File::create(c"/result");
    None::<String>.put(&mut result);
    records.put(&mut result);
    result.flush();
    sys::switch_off()
}

fn read_orders() -> Orders {
    let mut bytes = Vec::new();
    Fd::open(c"/plan", 0).each("the plan", |read| bytes.extend_from_slice(read));
    let mut rest = &bytes[..];
    match Orders::take(&mut rest) {
        Some(orders) if rest.is_empty() => orders,
        _ => fail("the plan is cut short, or of another version"),
    }
}

fn take(step: &Step, kernel: &mut Kernel) {
    match step {
        Step::Write { namespace, path, text } => {
            kernel.enter(*namespace);
            write_file(path, text);
        }
        Step::Netlink { namespace, request, what } => kernel.ask(*namespace, request, what),
    }
}

fn load(module: &ModuleOrder) {
    let file = Fd::open(&c_string(&module.path), 0);
    let parameters = c_string(&module.parameters);
    // SAFETY: a string that ends with a zero byte.
    let loaded =
        unsafe { call(sys::FINIT_MODULE, &[file.number(), parameters.as_ptr() as usize, 0]) };
    need(&module.what, loaded);
}

fn c_string(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}

fn write_file(path: &str, text: &str) {
    let file = Fd::open(&c_string(path), 1 /* write */);
    need(path, file.write(text.as_bytes()));
}

/// What the kernel has of them becomes a file of its own: the run is over, and this may take time.
fn write_captures() {
    const FROM: &CStr = c"/proc/knee_captures";
    let mut to = File::create(c"/captures");
    Fd::open(FROM, 0).each("the captures", |read| knee_traffic::bytes::Sink::put(&mut to, read));
    to.flush();
}
