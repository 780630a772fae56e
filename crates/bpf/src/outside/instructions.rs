//! Checks the calls in an object's programs: only those that knee's own programs make are allowed.
//!
//! The verifier lets root's congestion control call every base helper, even the one that reads any
//! kernel memory. Knee's headers call few of them.

use super::elf::Elf;

const BYTES: usize = 8;
/// The opcodes of a call and of a 64-bit load.
const CALL: u8 = 0x85;
const LOAD_64_BITS: u8 = 0x18;
/// The source register of a call gives its target: a helper of the kernel, or a function of the
/// object.
const OF_HELPER: u8 = 0;
const OF_OBJECT: u8 = 1;
/// The numbers of the helpers that knee's headers call (`bpf.h`, `record.h`).
const HELPERS: [i32; 9] = [
    1,   // map_lookup_elem
    5,   // ktime_get_ns
    7,   // get_prandom_u32
    35,  // get_current_task
    49,  // setsockopt
    107, // sk_storage_get
    116, // tcp_send_ack
    118, // jiffies64
    130, // ringbuf_output
];
/// The kernel symbols that an object may use: functions of TCP, which the kernel limits further,
/// and the kernel's build configuration.
const FUNCTIONS: &str = "tcp_";
const CONFIG: &str = "CONFIG_HZ";

/// Refuses calls that no algorithm makes.
pub(super) fn check(elf: &Elf<'_>) -> Result<(), String> {
    for instruction in elf.code().flat_map(|code| code.chunks(BYTES)) {
        let &[code, registers, _, _, ref number @ ..] = instruction else {
            return Err("has a program that ends within an instruction".to_owned());
        };
        let number = <[u8; 4]>::try_from(number).map(i32::from_le_bytes);
        match (code, registers >> 4, number) {
            (CALL, OF_HELPER, Ok(helper)) if HELPERS.contains(&helper) => {}
            (CALL, OF_OBJECT, Ok(_)) => {}
            (CALL, OF_HELPER, Ok(helper)) => {
                return Err(format!(
                    "calls helper {helper} of the kernel, which no algorithm does"
                ));
            }
            (CALL, ..) => return Err("calls the kernel by a number of its own".to_owned()),
            // The load is of a number, or of a map of this object that libbpf inserts.
            (LOAD_64_BITS, 1.., _) => {
                return Err("names things of the kernel by numbers of its own".to_owned());
            }
            _ => {}
        }
    }
    let is_known =
        |name: &&[u8]| name.starts_with(FUNCTIONS.as_bytes()) || *name == CONFIG.as_bytes();
    let other = elf.undefined().ok_or("is a broken object: a symbol of it has no name")?;
    match other.iter().find(|name| !is_known(name)) {
        Some(name) => Err(format!(
            "uses \"{}\" of the kernel, which no algorithm does",
            String::from_utf8_lossy(name).escape_debug()
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Embedded;

    #[test]
    fn knees_own_algorithms_pass_and_programs_of_another_kind_do_not() {
        for embedded in Embedded::all() {
            let elf = Elf::read(embedded.object()).unwrap();
            assert_eq!(check(&elf), Ok(()), "{}", embedded.name());
        }
        if let Ok(policy) = crate::program("policy") {
            let why = check(&Elf::read(policy).unwrap()).unwrap_err();
            assert!(why.contains("which no algorithm does"), "{why}");
        }
    }
}
