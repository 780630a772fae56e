//! Real machines as hosts: which there are, how they are reached, and runs on them.
//!
//! `knee agent` of each machine is started by ssh and given orders ([`crate::traffic::agent`]); it goes when its ssh does. The
//! network is the one that is there: of the experiment's only the names of its hosts count.
//!
//! | part | what it is |
//! | --- | --- |
//! | `file` | the file that names them |
//! | `connection` | one ssh, and what is said over it |
//! | `fleet` | all of them: who they are, what their clocks say, and that none has died |
//! | `cast` | which machine has which part of a run |
//! | `run` | one run from beginning to end |
//! | `merge` | reports of all machines as one, on one clock |
//! | `validity` | clocks, lateness, CPUs, and what machines have otherwise than the experiment asks for |

mod cast;
mod connection;
mod file;
mod fleet;
mod merge;
mod run;
mod validity;

pub use file::FILE;
pub use run::OnMachines;

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::path::PathBuf;

use crate::Error;

/// The machines of `--on hosts=FILE`; [`Machines::read`] reads the file, whose keys are in docs/hosts.md.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machines {
    /// The file, for messages.
    pub file: PathBuf,
    /// In the order of the file.
    pub machines: Vec<Machine>,
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// As messages and results call it.
    pub name: String,
    /// What `ssh` is given: `user@address`, or a name of the user's own ssh configuration.
    pub ssh: String,
    /// Its address in the network that is measured.
    pub address: IpAddr,
    /// The device that has it.
    pub device: String,
    /// Hosts of the experiment's network that it is.
    pub roles: Vec<String>,
    /// Where its `knee` comes from.
    pub knee: Binary,
    /// Options of ssh, each as `Name=value`.
    pub options: Vec<String>,
}

/// Where the program of a machine comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Binary {
    /// It is there already, at this absolute path.
    There(String),
    /// This file of the machine that measures is copied for the time of the run.
    Copied(PathBuf),
    /// The program that measures is copied for the time of the run.
    Same,
}

impl Machines {
    /// Which machine is which host of the experiment, by places in the file.
    fn by_role(&self) -> HashMap<&str, usize> {
        let roles = self.machines.iter().enumerate();
        let roles = roles.flat_map(|(place, machine)| {
            machine.roles.iter().map(move |role| (role.as_str(), place))
        });
        roles.collect()
    }

    /// Checks that the hosts of an experiment are all there.
    ///
    /// # Errors
    /// Which is not, and what to write.
    pub fn check(&self, hosts: &[&str]) -> Result<(), Error> {
        let file = self.file.display();
        let by_role = self.by_role();
        if let Some(missing) = hosts.iter().find(|host| !by_role.contains_key(*host)) {
            return Err(Error::Refused(format!(
                "{file}: no machine is {missing} of the experiment's network: give one roles = [\"{missing}\"]"
            )));
        }
        let known: HashSet<&str> = hosts.iter().copied().collect();
        let roles = self.machines.iter().flat_map(|machine| &machine.roles);
        match roles.into_iter().find(|role| !known.contains(role.as_str())) {
            None => Ok(()),
            Some(role) => Err(Error::Refused(format!(
                "{file}: the experiment's network has no host {role}: it has {}",
                hosts.join(", ")
            ))),
        }
    }
}
