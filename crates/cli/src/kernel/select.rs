//! Selects the connections that a command applies to.

use knee_bpf::Filter;
use knee_bpf::policy::Prefix;
use knee_netns::FoundNamespace;

use crate::Failure;

/// Those that fit all that is given.
#[derive(clap::Args)]
pub(super) struct FilterArgs {
    /// Only this local port.
    #[arg(long, value_name = "PORT")]
    local_port: Option<u16>,
    /// Only this remote port.
    #[arg(long, value_name = "PORT")]
    remote_port: Option<u16>,
    /// Only to or from these addresses: 10.1.0.0/16, 2001:db8::/32, 10.1.2.3.
    #[arg(long, value_name = "PREFIX")]
    remote: Option<Prefix>,
}

impl FilterArgs {
    pub(super) fn filter(&self, algorithm: Option<&str>) -> Filter {
        Filter {
            algorithm: algorithm.map(str::to_owned),
            local_port: self.local_port,
            remote_port: self.remote_port,
            remote: self.remote,
        }
    }
}

/// In which network namespaces.
#[derive(clap::Args)]
pub(super) struct NetnsArgs {
    /// In this network namespace: host, a name of ip netns, or the number of a process; or in all.
    #[arg(long, value_name = "NAME|PID|all")]
    netns: Option<String>,
}

impl NetnsArgs {
    /// Returns whether several namespaces may be selected.
    pub(super) fn are_several(&self) -> bool {
        self.netns.as_deref() == Some("all")
    }

    /// Returns the selected namespaces that exist now, each with a readable name.
    pub(super) fn find(&self) -> Result<Vec<(FoundNamespace, String)>, Failure> {
        let unreadable =
            |error| Failure::Says(format!("cannot read the network namespaces: {error}"));
        let labelled = |found: FoundNamespace| {
            let label = found.label();
            (found, label)
        };
        match self.netns.as_deref() {
            None => Ok(vec![labelled(knee_netns::current().map_err(unreadable)?)]),
            Some("all") => {
                let all = knee_netns::all().map_err(unreadable)?;
                Ok(all.into_iter().map(labelled).collect())
            }
            Some(name) => {
                if let Some(found) =
                    name.parse().ok().and_then(|pid| knee_netns::of_process(pid).ok())
                {
                    return Ok(vec![labelled(found)]);
                }
                let all = knee_netns::all().map_err(unreadable)?;
                let found = all.into_iter().map(labelled).find(|(_, label)| label == name);
                found.map(|found| vec![found]).ok_or_else(|| {
                    Failure::Says(format!(
                        "no network namespace \"{name}\": it must be host, a name of ip netns, the \
                         number of a process in it, or all"
                    ))
                })
            }
        }
    }
}
