//! Moves live connections to another congestion control. `programs/migrate.bpf.c` is the BPF part.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;

use knee_netns::FoundNamespace;
use libbpf_rs::{MapCore as _, MapFlags};

use crate::connections::{Iteration, cannot_read};
use crate::table::NAME_BYTES;
use crate::{Connection, Error, Filter, State, check_name, registry};

/// The section, and so the map, that holds the settings (migrate.bpf.c).
const SETTINGS_MAP: &str = ".rodata.migrate";

/// The planned or actual result for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The plan moves it.
    Planned,
    /// It has the new algorithm.
    Moved,
    /// It was left alone: the new algorithm needs ECN, which this connection did not negotiate.
    NoEcn,
    /// It was left alone: the handshake is not complete, so ECN is not negotiated yet.
    Handshake,
    /// It was left alone: it had another algorithm by the time of the move.
    Changed,
    /// It closed before its move.
    Gone,
    /// The new algorithm accepted it and immediately handed it on to another.
    HandedOn,
    /// The kernel refused with this error number.
    Refused(i32),
}

impl Outcome {
    /// Whether the connection was skipped, which is no failure.
    pub fn is_skipped(self) -> bool {
        matches!(self, Outcome::NoEcn | Outcome::Handshake | Outcome::Changed | Outcome::Gone)
    }

    /// Whether the move failed.
    pub fn is_failed(self) -> bool {
        matches!(self, Outcome::HandedOn | Outcome::Refused(_))
    }

    /// Decodes the result that migrate.bpf.c writes.
    fn of(result: i32) -> Outcome {
        match result {
            0 => Outcome::Moved,
            1 => Outcome::Changed,
            2 => Outcome::NoEcn,
            3 => Outcome::HandedOn,
            error => Outcome::Refused(error.saturating_neg()),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Planned => f.write_str("would move"),
            Outcome::Moved => f.write_str("moved"),
            Outcome::NoEcn => f.write_str("skipped: it did not negotiate ECN"),
            Outcome::Handshake => f.write_str("skipped: its handshake is not over"),
            Outcome::Changed => f.write_str("skipped: its algorithm was changed meanwhile"),
            Outcome::Gone => f.write_str("skipped: it closed meanwhile"),
            Outcome::HandedOn => f.write_str("failed: the algorithm handed it on to another"),
            // EPERM: the route locks its algorithm (`congctl lock`).
            Outcome::Refused(1) => f.write_str("failed: its route locks the algorithm"),
            Outcome::Refused(2) => f.write_str("failed: the algorithm is not registered any more"),
            Outcome::Refused(error) => {
                write!(f, "failed: {}", io::Error::from_raw_os_error(*error))
            }
        }
    }
}

/// A connection and its planned or actual result.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The connection, as it was when the plan was made.
    pub connection: Connection,
    /// The result.
    pub outcome: Outcome,
}

/// A move of connections from one algorithm to another.
#[derive(Clone, Debug)]
pub struct Migration {
    from: String,
    to: String,
    filter: Filter,
    of_listeners: bool,
    needs_ecn: bool,
}

impl Migration {
    /// Makes a migration of the connections of algorithm `from` that match the filter to `to`. If
    /// `of_listeners` is set, it moves listening sockets instead, which affects the connections
    /// that they accept from then on.
    ///
    /// # Errors
    /// [`Error::BadName`]; [`Error::NoSuchAlgorithm`] if `to` is not registered;
    /// [`Error::NotPermitted`], [`Error::Read`] and [`Error::Inspect`].
    pub fn new(
        from: &str,
        to: &str,
        filter: Filter,
        of_listeners: bool,
    ) -> Result<Migration, Error> {
        check_name(from)?;
        check_name(to)?;
        let known = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")
            .map_err(|source| Error::Read { what: "the algorithms that there are", source })?;
        let known: Vec<String> = known.split_whitespace().map(str::to_owned).collect();
        if !known.iter().any(|name| name == to) {
            return Err(Error::NoSuchAlgorithm { name: to.to_owned(), known });
        }
        let needs_ecn = registry::needs_ecn(to)?;
        let (from, to) = (from.to_owned(), to.to_owned());
        Ok(Migration { from, to, filter, of_listeners, needs_ecn })
    }

    /// Whether the new algorithm needs ECN.
    pub fn needs_ecn(&self) -> bool {
        self.needs_ecn
    }

    /// Predicts the result for these connections. Those that the migration does not cover are left
    /// out.
    pub fn plan(&self, connections: Vec<Connection>) -> Vec<Planned> {
        let is_meant = |one: &Connection| {
            one.algorithm == self.from
                && one.is_listener() == self.of_listeners
                && self.filter.fits(one)
        };
        let plan = connections.into_iter().filter(is_meant).map(|connection| {
            let outcome = match connection.state {
                State::SynSent | State::SynReceived | State::NewSynReceived => Outcome::Handshake,
                State::Listen => Outcome::Planned,
                _ if self.needs_ecn && !connection.has_ecn() => Outcome::NoEcn,
                _ => Outcome::Planned,
            };
            Planned { connection, outcome }
        });
        plan.collect()
    }

    /// Carries out the plan in these namespaces, and returns it with each connection's result.
    ///
    /// # Errors
    /// [`Error::NotBuilt`], [`Error::NotPermitted`], [`Error::Load`], [`Error::Inspect`],
    /// [`Error::Read`].
    pub fn run(
        &self,
        mut plan: Vec<Planned>,
        namespaces: &[FoundNamespace],
    ) -> Result<Vec<Planned>, Error> {
        let inspect = |source| Error::Inspect { what: "the list of connections to move", source };
        let todo: Vec<_> = plan.iter().filter(|one| one.outcome == Outcome::Planned).collect();
        if todo.is_empty() {
            return Ok(plan);
        }
        let entries = u32::try_from(todo.len()).unwrap_or(u32::MAX);
        let what = "moving connections";
        let iteration = Iteration::load("migrate", what, |open| {
            let mut maps = open.maps_mut();
            let mut settings = maps.find(|map| map.name() == SETTINGS_MAP);
            let section = settings.as_mut().and_then(|map| map.initial_value_mut());
            let section = section.filter(|section| section.len() == 2 * NAME_BYTES + 4);
            let section =
                section.ok_or_else(|| Error::BadObject { what: format!("{what}: settings") })?;
            section[..self.from.len()].copy_from_slice(self.from.as_bytes());
            section[NAME_BYTES..][..self.to.len()].copy_from_slice(self.to.as_bytes());
            section[2 * NAME_BYTES..].copy_from_slice(&u32::from(self.needs_ecn).to_ne_bytes());
            drop(maps);
            let mut chosen = open.maps_mut().find(|map| map.name() == "chosen");
            chosen.as_mut().map_or(Ok(()), |map| map.set_max_entries(entries)).map_err(inspect)
        })?;
        let chosen = iteration
            .object()
            .maps()
            .find(|map| map.name() == "chosen")
            .ok_or_else(|| Error::BadObject { what: format!("{what}: list") })?;
        for one in &todo {
            let cookie = one.connection.cookie.to_ne_bytes();
            chosen.update(&cookie, &[0; 8], MapFlags::ANY).map_err(inspect)?;
        }
        let where_they_are: BTreeSet<_> = todo.iter().map(|one| one.connection.netns).collect();
        for namespace in namespaces.iter().filter(|one| where_they_are.contains(&one.id())) {
            namespace.run(|| iteration.run()).map_err(cannot_read)??;
        }
        for one in plan.iter_mut().filter(|one| one.outcome == Outcome::Planned) {
            let cookie = one.connection.cookie.to_ne_bytes();
            let value = chosen.lookup(&cookie, MapFlags::ANY).map_err(inspect)?;
            let word = |at: usize| {
                let bytes = value.as_deref()?.get(at..at + 4)?.try_into().ok()?;
                Some(u32::from_ne_bytes(bytes))
            };
            one.outcome = match (word(0), word(4)) {
                (Some(1), Some(result)) => Outcome::of(result as i32),
                _ => Outcome::Gone,
            };
        }
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use libbpf_rs::HasSize as _;
    use libbpf_rs::btf::Btf;
    use libbpf_rs::btf::types::{MemberAttr, Struct};

    #[test]
    fn results_have_the_layout_that_the_program_writes() {
        let Ok(object) = crate::program("migrate") else { return };
        let btf = Btf::from_raw("migrate", object).unwrap().unwrap();
        let outcome: Struct<'_> = btf.type_by_name("outcome").unwrap();
        let members: Vec<_> = outcome
            .iter()
            .map(|member| {
                let MemberAttr::Normal { offset } = member.attr else { panic!("a bit-field") };
                (member.name.unwrap().to_str().unwrap(), offset / 8)
            })
            .collect();
        // `Migration::run` reads the members at these offsets; it writes 8 bytes before.
        assert_eq!(members, [("is_known", 0), ("result", 4)]);
        assert_eq!(outcome.size(), 8);
    }
}
