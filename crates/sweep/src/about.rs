//! Describes an experiment in the manifest: texts, published figures, charts, network.

use knee_queue::{Limit, QueueConfig, Threshold};
use knee_results::manifest::{self, About, Axis, Network, Node, NodeKind};
use knee_run::spec::Link;
use knee_scenario::cases;
use knee_scenario::chart::Chart;
use knee_scenario::error::Error;
use knee_scenario::experiment::Experiment;
use knee_scenario::published::Published;
use knee_scenario::stats::rounded;

/// Largest number of links in a manifest: 30 MB of it.
const MOST_LISTED_LINKS: usize = 120_000;

/// Description of an experiment for the manifest.
pub(crate) fn about(experiment: &Experiment) -> About {
    About {
        expect: experiment.expect.clone(),
        source: experiment.source.clone(),
        notes: experiment.notes.clone(),
    }
}

/// Describes a varied key.
pub fn axis(axis: &cases::Axis) -> Axis {
    let column = axis.column();
    Axis {
        path: axis.path.clone(),
        values: axis.labels(),
        keys: match axis.is_together() {
            true => axis.paths().map(str::to_owned).collect(),
            false => Vec::new(),
        },
        column: (column.name != axis.path).then_some(column.name),
        numbers: column.numbers.unwrap_or_default(),
    }
}

/// Describes a published figure.
pub(crate) fn published(published: &Published) -> manifest::Published {
    manifest::Published {
        subject: published.subject.clone(),
        metric: published.metric.name().into(),
        stat: published.stat.name().into(),
        cases: published.cases.clone(),
        at: published.at.clone(),
        value: published.value,
        text: published.text.clone(),
        unit: published.metric.unit().into(),
        note: published.note.clone(),
    }
}

/// Describes a chart.
pub(crate) fn chart(chart: &Chart) -> manifest::Chart {
    manifest::Chart {
        kind: chart.kind.name().into(),
        title: chart.title.clone(),
        subject: chart.figure.subject.clone(),
        metric: chart.figure.metric.name().into(),
        stat: chart.figure.stat.name().into(),
        against: chart.against.as_ref().map(|other| manifest::Figure {
            subject: other.subject.clone(),
            metric: other.metric.name().into(),
            stat: other.stat.name().into(),
        }),
        x: chart.x.clone(),
        y: chart.y.clone(),
        log: chart.log,
    }
}

/// Describes the network of the first run for a manifest. `None` if that would make the file too large to be read.
pub(crate) fn listed_network(experiment: &Experiment) -> Result<Option<Network>, Error> {
    let links = experiment.scenario(&experiment.row(0))?.links();
    if links > MOST_LISTED_LINKS { Ok(None) } else { network(experiment).map(Some) }
}

/// Describes the network of the first run.
///
/// # Errors
/// None beyond those of [`Experiment::load`].
pub fn network(experiment: &Experiment) -> Result<Network, Error> {
    let network = experiment.run(experiment.run_id(0))?.network;
    let name = |id: u32| network.nodes.get(id as usize).map_or("", |node| &node.name).to_owned();
    let nodes = network.nodes.iter().map(|node| Node {
        name: node.name.clone(),
        kind: if node.host.is_some() { NodeKind::Host } else { NodeKind::Switch },
    });
    let links = network.links.iter().map(|link| manifest::Link {
        name: network.link_name(link),
        from: name(link.from),
        to: name(link.to),
        rate_bps: link.rate.map(|rate| rate.bps()),
        delay_s: rounded(link.delay.ps() as f64 / 1e12),
        overhead_bytes: if link.rate.is_some() { link.overhead_bytes } else { 0 },
        queue: queue_words(link),
        recorded: link.sampled,
    });
    Ok(Network {
        topology: experiment.topology().unwrap_or_default().into(),
        nodes: nodes.collect(),
        links: links.collect(),
    })
}

/// Describes the queue of a link, as `step, 500 pkts, K 20 pkts`. Empty without a queue.
fn queue_words(link: &Link) -> String {
    let limit = |limit: Limit| match limit {
        // Hosts have these limits if the file gives none.
        Limit::Pkts(u32::MAX) | Limit::Bytes(u64::MAX) => "no limit".to_owned(),
        Limit::Pkts(pkts) => format!("{pkts} pkts"),
        Limit::Bytes(bytes) => format!("{bytes} B"),
    };
    match (&link.queue, link.rate) {
        (_, None) => String::new(),
        (QueueConfig::DropTail(config), _) => format!("droptail, {}", limit(config.limit)),
        (QueueConfig::Step(config), _) => {
            let k = match config.threshold {
                Threshold::Pkts(pkts) => format!("{pkts} pkts"),
                Threshold::Bytes(bytes) => format!("{bytes} B"),
                Threshold::Sojourn(time) => format!("{} us", time.ps() / 1_000_000),
            };
            format!("step, {}, K {k}", limit(config.limit))
        }
        (other, _) => other.kind().to_owned(),
    }
}
