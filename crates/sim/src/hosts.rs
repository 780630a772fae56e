//! The hosts of a run that have sockets. The others have no state.

use crate::modules;
use crate::plan::Plan;
use crate::tcp::HostState;
use knee_run::Error;
use knee_run::spec::{Cc, HostConfig, Network, NodeId};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// How many of the last configurations a new one is compared with.
const COMPARED: usize = 8;

/// Values of sysctls under their names.
type Sysctls = Rc<[(&'static str, i64)]>;

/// Creates the state of hosts when their first socket comes.
pub(crate) struct Hosts<'a> {
    network: &'a Network,
    plan: &'a Plan,
    of_nodes: Vec<Option<Rc<HostState>>>,
    /// Hosts with equal configurations share it, and the values of their sysctls.
    configs: Vec<(Arc<HostConfig>, Sysctls)>,
}

impl<'a> Hosts<'a> {
    pub(crate) fn new(network: &'a Network, plan: &'a Plan) -> Hosts<'a> {
        Hosts { network, plan, of_nodes: vec![None; network.nodes.len()], configs: Vec::new() }
    }

    /// Returns the host of a node with the module that the algorithm of a new socket needs.
    ///
    /// # Errors
    /// If the node is a switch, or the module cannot be loaded.
    pub(crate) fn with(&mut self, node: NodeId, cc: &Cc) -> Result<Rc<HostState>, Error> {
        let host = match &self.of_nodes[node as usize] {
            Some(host) => Rc::clone(host),
            None => self.add(node)?,
        };
        let loaded = host.modules.load(cc.algorithm, &cc.params);
        loaded.map(|()| host).map_err(|why| Error::Refused(why.to_string()))
    }

    fn add(&mut self, node: NodeId) -> Result<Rc<HostState>, Error> {
        let config = self.network.nodes[node as usize].host.as_ref().zip(self.plan.clock(node));
        let Some((config, jiffies)) = config else {
            return Err(Error::Refused(format!("node {node} is a switch and has no TCP")));
        };
        let (config, sysctls) = self.shared(config);
        let modules = modules::with_sysctls(sysctls);
        let host = Rc::new(HostState { config, jiffies, modules, gro: Cell::default() });
        self.of_nodes[node as usize] = Some(Rc::clone(&host));
        Ok(host)
    }

    /// Returns an equal configuration that another host has, or this one.
    fn shared(&mut self, config: &Arc<HostConfig>) -> (Arc<HostConfig>, Sysctls) {
        let is_equal = |other: &Arc<HostConfig>| Arc::ptr_eq(other, config) || other == config;
        let last = self.configs.iter().rev().take(COMPARED);
        if let Some(same) = last.clone().find(|(other, _)| is_equal(other)) {
            return same.clone();
        }
        let new = (Arc::clone(config), modules::sysctls(config));
        self.configs.push(new.clone());
        new
    }

    /// Returns the state of each node; `None` for switches and for hosts without a socket.
    pub(crate) fn finish(self) -> Vec<Option<Rc<HostState>>> {
        self.of_nodes
    }
}
