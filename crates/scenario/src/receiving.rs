//! Receive settings of hosts: `hosts.coalesce` and `cpu`.

use knee_file::keys::{Entry, Keys, Shape, Table, entries};
use knee_file::{Error, Fields, Reader};
use knee_queue::time::Duration;
use knee_run::spec::{Coalesce, CpuCosts};

/// Interrupt coalescing.
static COALESCE: Fields = Fields { show: |v| coalesce().fields(v), tables: |below| below };

/// Interrupt coalescing of a host.
pub(crate) static COALESCE_TABLE: Table = Table {
    name: "coalesce",
    says: "Interrupt coalescing.",
    shape: || Shape::Keys(coalesce_entries()),
};

/// Returns the schema entries of coalescing, for hosts and switches.
pub(crate) fn coalesce_entries() -> Vec<Entry> {
    entries(&[&COALESCE])
}

/// CPU time per operation.
pub(crate) static CPU: Fields =
    Fields { show: |v| CpuCosts::default().fields(v), tables: |below| below };

/// CPU costs.
pub(crate) static CPU_TABLE: Table =
    Table { name: "cpu", says: "CPU time per operation.", shape: || Shape::Keys(entries(&[&CPU])) };

fn coalesce() -> Coalesce {
    Coalesce::fixed(None, Duration::ZERO)
}

/// Reads interrupt coalescing of a host or a switch. A switch's table has additional keys.
pub(crate) fn read_coalesce(
    reader: &Reader<'_>,
    other: Option<&dyn Keys>,
) -> Result<Coalesce, Error> {
    let keys: Vec<&dyn Keys> = [&COALESCE as &dyn Keys].into_iter().chain(other).collect();
    reader.check(&keys)?;
    let mut found = coalesce();
    reader.fill(0, |v| found.fields(v))?;
    Ok(found)
}
