//! What holds of links whose state changes during the run.

use std::collections::HashSet;

use knee_queue::time::Duration;

use crate::Error;
use crate::spec::{LinkId, Network, NewState};

impl Network {
    /// The least delay that each link ever has.
    pub fn least_delays(&self) -> Vec<Duration> {
        let mut least: Vec<Duration> = self.links.iter().map(|link| link.delay).collect();
        for change in &self.changes.links {
            if let (NewState::Delay(delay), Some(of_link)) =
                (change.to, least.get_mut(change.link as usize))
            {
                *of_link = delay.min(*of_link);
            }
        }
        least
    }
}

/// Refuses changes that contradict the network.
pub(crate) fn check(network: &Network) -> Result<(), Error> {
    let refuse = |message: String| Err(Error::Refused(message));
    let changes = &network.changes;
    let is_sorted = changes.links.windows(2).all(|pair| pair[0].at <= pair[1].at)
        && changes.routes.windows(2).all(|pair| pair[0].at <= pair[1].at);
    if !is_sorted {
        return refuse("changes of links: must be in the order of time".to_owned());
    }
    let lossless = network.flow_control.as_ref().is_some_and(|it| it.lossless);
    let mut down: HashSet<LinkId> = HashSet::new();
    for change in &changes.links {
        let Some(link) = network.links.get(change.link as usize) else {
            return refuse(format!("changes of links: there is no link {}", change.link));
        };
        let name = network.link_name(link);
        match change.to {
            NewState::Rate(_) if link.rate.is_none() => {
                return refuse(format!("link {name}: has no rate that could change"));
            }
            NewState::Loss(loss) if !(0.0..=1.0).contains(&loss) => {
                return refuse(format!("link {name}: a loss of {loss}: must be 0 to 1"));
            }
            NewState::Down if !down.insert(change.link) => {
                return refuse(format!("link {name}: goes down while it is down"));
            }
            NewState::Up if !down.remove(&change.link) => {
                return refuse(format!("link {name}: comes up while it is up"));
            }
            _ => {}
        }
        if lossless && !matches!(change.to, NewState::Loss(_)) {
            return refuse(format!(
                "link {name}: changes, so the headroom of its pauses is not known: set lossless = \
                    false in flow_control"
            ));
        }
    }
    match changes.routes.iter().find(|change| change.link as usize >= network.links.len()) {
        Some(change) => refuse(format!("routes: there is no link {} to avoid", change.link)),
        None => Ok(()),
    }
}
