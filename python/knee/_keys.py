"""The keys of experiments as types, for editors and type checkers. `scripts/python-keys` writes this file from the schema.

What a key takes beyond its type, as units, is checked when an experiment is made. A table of which a word chooses the keys has those of all
its words here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

PublishedKeys = TypedDict(
    "PublishedKeys",
    {
        "subject": "str",
        "metric": "str",
        "stat": "Literal['mean', 'sd', 'min', 'p50', 'p95', 'p99', 'p999', 'max']",
        "case": "str | Sequence[str]",
        "at": "AtKeys",
        "value": "str",
        "note": "str",
    },
    total=False,
)

ClaimKeys = TypedDict(
    "ClaimKeys",
    {
        "name": "str",
        "says": "str",
        "by": "Literal['source', 'us']",
        "because": "str",
        "see": "str",
        "cannot": "str",
        "check": "Sequence[CheckKeys]",
    },
    total=False,
)

QuickKeys = TypedDict(
    "QuickKeys",
    {
        "repeat": "int",
        "case": "str | Sequence[str]",
        "vary": "AtKeys",
        "set": "SetKeys",
    },
    total=False,
)

ChartKeys = TypedDict(
    "ChartKeys",
    {
        "kind": "Literal['lines', 'bars', 'cdf', 'time', 'tradeoff', 'heat']",
        "title": "str",
        "subject": "str",
        "metric": "str",
        "stat": "Literal['mean', 'sd', 'min', 'p50', 'p95', 'p99', 'p999', 'max']",
        "x": "str",
        "y": "str",
        "against": "AgainstKeys",
        "log": "bool",
    },
    total=False,
)

NetworkKeys = TypedDict(
    "NetworkKeys",
    {
        "topology": "Literal['many-to-one', 'star', 'dumbbell', 'leaf-spine', 'parking-lot', 'fat-tree', 'graph', 'file']",
        "senders": "int",
        "access": "CableKeys",
        "bottleneck": "CableKeys",
        "return": "CableKeys",
        "buffer": "BufferKeys",
        "buffers": "Sequence[BuffersKeys]",
        "flow_control": "FlowControlKeys",
        "coalesce": "CoalesceOfSwitchesKeys",
        "change": "Sequence[ChangeKeys]",
        "balance": "BalanceKeys",
        "balances": "Sequence[BalancesKeys]",
        "hosts": "int",
        "up": "CableKeys",
        "down": "CableKeys",
        "receivers": "int",
        "back": "CableKeys",
        "receiver_access": "CableKeys",
        "leaves": "int",
        "spines": "int",
        "hosts_per_leaf": "int",
        "fabric": "CableKeys",
        "oversubscription": "float",
        "hops": "int",
        "through": "int",
        "cross": "int",
        "k": "int",
        "edge": "CableKeys",
        "core": "CableKeys",
        "node": "Sequence[NodeKeys]",
        "link": "Sequence[LinkKeys]",
        "nodes": "str",
        "links": "str",
        "cable": "Sequence[NamedCableKeys]",
    },
    total=False,
)

HostsKeys = TypedDict(
    "HostsKeys",
    {
        "linux": "Literal['6.1', '6.12', '6.18', '7.3']",
        "offloads": "Literal['off', 'on']",
        "hz": "int",
        "jiffies_at_start": "int",
        "ipv6": "bool",
        "tcp_ecn": "int",
        "ecn_low": "bool",
        "tcp_ecn_fallback": "bool",
        "syn_ect": "bool",
        "mtu": "str",
        "initial_cwnd": "str",
        "rto_min": "str",
        "slow_start_after_idle": "bool",
        "sack": "bool",
        "gso_max_segs": "int",
        "gro_window": "str",
        "limit_output": "str",
        "skb_overhead": "str",
        "max_skb_frags": "int",
        "max_tcp_header": "str",
        "base_rtt": "str",
        "fq": "bool",
        "fq_counts_headers": "bool",
        "tso_rtt_log": "int",
        "rcvbuf_initial": "str",
        "rcvbuf_max": "str",
        "sndbuf_initial": "str",
        "sndbuf_max": "str",
        "defects": "Literal['stale_special_ack', 'special_ack_cancels_delack', 'no_immediate_ack_on_ce_change', 'ce_change_resets_ato', 'no_ack_on_cwr', 'ece_not_on_special_ack', 'no_small_queues'] | Sequence[Literal['stale_special_ack', 'no_small_queues']]",
        "coalesce": "CoalesceKeys",
        "receive_queues": "int",
        "gro": "bool",
        "cpu": "CpuKeys",
    },
    total=False,
)

HostKeys = TypedDict(
    "HostKeys",
    {
        "name": "str",
        "hosts": "str",
        "linux": "Literal['6.1', '6.12', '6.18', '7.3']",
        "offloads": "Literal['off', 'on']",
        "hz": "int",
        "jiffies_at_start": "int",
        "ipv6": "bool",
        "tcp_ecn": "int",
        "ecn_low": "bool",
        "tcp_ecn_fallback": "bool",
        "syn_ect": "bool",
        "mtu": "str",
        "initial_cwnd": "str",
        "rto_min": "str",
        "slow_start_after_idle": "bool",
        "sack": "bool",
        "gso_max_segs": "int",
        "gro_window": "str",
        "limit_output": "str",
        "skb_overhead": "str",
        "max_skb_frags": "int",
        "max_tcp_header": "str",
        "base_rtt": "str",
        "fq": "bool",
        "fq_counts_headers": "bool",
        "tso_rtt_log": "int",
        "rcvbuf_initial": "str",
        "rcvbuf_max": "str",
        "sndbuf_initial": "str",
        "sndbuf_max": "str",
        "defects": "Literal['stale_special_ack', 'special_ack_cancels_delack', 'no_immediate_ack_on_ce_change', 'ce_change_resets_ato', 'no_ack_on_cwr', 'ece_not_on_special_ack', 'no_small_queues'] | Sequence[Literal['stale_special_ack', 'no_small_queues']]",
        "coalesce": "CoalesceKeys",
        "receive_queues": "int",
        "gro": "bool",
        "cpu": "CpuKeys",
    },
    total=False,
)

TrafficKeys = TypedDict(
    "TrafficKeys",
    {
        "name": "str",
        "kind": "Literal['bulk', 'incast', 'rpc', 'ping', 'cbr', 'poisson', 'query', 'shuffle', 'attempts', 'trace', 'collective', 'chakra']",
        "from": "str | Sequence[str]",
        "to": "str | Sequence[str]",
        "start": "str",
        "show": "str | Sequence[str]",
        "dscp": "int",
        "start_jitter": "str",
        "flows": "int",
        "start_shift": "str",
        "stagger": "str",
        "each": "bool",
        "cc": "str",
        "params": "ParamsKeys",
        "peer_cc": "str",
        "peer_params": "ParamsKeys",
        "read_at": "str",
        "base_rtt": "str",
        "max_pacing_rate": "str",
        "sample": "bool",
        "peer_dscp": "int",
        "size": "str | Sequence[str] | str",
        "stop": "str",
        "stop_stagger": "str",
        "converged": "ConvergedKeys",
        "rounds": "int",
        "every": "str",
        "all_to_all": "bool",
        "load": "str",
        "of": "str | Sequence[str]",
        "rate": "str",
        "arrivals_per_sec": "int",
        "request": "str | Sequence[str] | str",
        "response": "str | Sequence[str] | str",
        "sizes": "Literal['web-search', 'data-mining', 'hadoop', 'cache-follower', 'storage'] | str | Mapping[str, Any] | Sequence[Sequence[str]]",
        "count": "int",
        "interval": "str",
        "ecn": "Literal['not-ect', 'ect0', 'ect1']",
        "matrix": "str",
        "until": "str",
        "total": "str",
        "parallel": "int",
        "per": "Literal['sender', 'receiver']",
        "order": "Literal['rotated', 'random']",
        "deadline": "str",
        "file": "str",
        "hosts": "str | Sequence[str]",
        "connections": "Literal['new', 'kept']",
        "operation": "Literal['ring-all-reduce', 'ring-reduce-scatter', 'ring-all-gather', 'ring-broadcast', 'tree-all-reduce', 'all-to-all']",
        "iterations": "int",
        "compute": "Literal['one-by-one', 'parallel'] | str",
        "compute_jitter": "str",
        "chunk": "str",
        "channels": "int",
        "trace": "str",
        "groups": "str",
        "all_reduce": "Literal['ring', 'tree']",
    },
    total=False,
)

CaseKeys = TypedDict(
    "CaseKeys",
    {
        "name": "str",
        "cc": "str",
        "params": "ParamsKeys",
        "set": "SetKeys",
    },
    total=False,
)

ModuleKeys = TypedDict(
    "ModuleKeys",
    {
        "define": "str | Sequence[str]",
        "include": "str | Sequence[str]",
        "linux": "str",
        "api": "str",
    },
    total=False,
)

VaryKeys = Mapping[str, Any]

RunKeys = TypedDict(
    "RunKeys",
    {
        "duration": "str",
        "until_done": "bool",
        "measure": "Literal['from until', 'while all run']",
        "measure_from": "str",
        "measure_until": "str",
        "repeat": "int",
        "seed": "int",
    },
    total=False,
)

SampleKeys = TypedDict(
    "SampleKeys",
    {
        "flows": "str",
        "queues": "str",
        "goodput": "str",
        "links": "str",
        "plot": "str | Sequence[str]",
    },
    total=False,
)

OutputKeys = TypedDict(
    "OutputKeys",
    {
        "sketches": "bool",
        "flows": "int",
        "series": "int",
        "charts": "bool",
        "stats": "str | Sequence[str]",
    },
    total=False,
)

AtKeys = Mapping[str, Any]

CheckKeys = TypedDict(
    "CheckKeys",
    {
        "figure": "FigureKeys",
        "over": "FigureKeys",
        "minus": "FigureKeys",
        "at_least": "str | float",
        "at_most": "str | float",
        "equals": "str | float",
        "within": "str | float",
        "every": "str | Sequence[str]",
    },
    total=False,
)

SetKeys = Mapping[str, Any]

AgainstKeys = TypedDict(
    "AgainstKeys",
    {
        "subject": "str",
        "metric": "str",
        "stat": "Literal['mean', 'sd', 'min', 'p50', 'p95', 'p99', 'p999', 'max']",
    },
    total=False,
)

CableKeys = TypedDict(
    "CableKeys",
    {
        "rate": "str",
        "burst": "str",
        "overhead": "str",
        "delay": "str",
        "jitter": "str",
        "loss": "str",
        "loss_per": "Literal['packet', 'burst']",
        "duplicate": "str",
        "thin_acks": "bool",
        "queue": "QueueKeys",
        "record": "bool",
    },
    total=False,
)

BufferKeys = TypedDict(
    "BufferKeys",
    {
        "size": "str",
        "alpha": "float | str",
        "reserved": "str",
        "record": "bool",
    },
    total=False,
)

BuffersKeys = TypedDict(
    "BuffersKeys",
    {
        "switches": "str | Sequence[str]",
        "size": "str",
        "alpha": "float | str",
        "reserved": "str",
        "record": "bool",
    },
    total=False,
)

FlowControlKeys = TypedDict(
    "FlowControlKeys",
    {
        "kind": "Literal['pause', 'pfc']",
        "xoff": "str",
        "xon": "str",
        "reaction": "str",
        "quanta": "int",
        "lossless": "bool",
        "switches": "str | Sequence[str]",
        "class": "Sequence[StoppedClassKeys]",
    },
    total=False,
)

CoalesceOfSwitchesKeys = TypedDict(
    "CoalesceOfSwitchesKeys",
    {
        "dim": "Literal['off', 'eqe', 'cqe']",
        "frames": "int",
        "time": "str",
        "since": "Literal['first packet', 'last packet', 'last interrupt']",
        "adaptive": "bool",
        "rate_low": "int",
        "rate_high": "int",
        "interval": "str",
        "switches": "str | Sequence[str]",
        "from": "str | Sequence[str]",
    },
    total=False,
)

ChangeKeys = TypedDict(
    "ChangeKeys",
    {
        "links": "str | Sequence[str]",
        "both": "bool",
        "at": "str",
        "until": "str",
        "every": "str",
        "times": "int",
        "down": "bool",
        "reroute": "str",
        "rate": "str",
        "delay": "str",
        "loss": "str",
    },
    total=False,
)

BalanceKeys = TypedDict(
    "BalanceKeys",
    {
        "kind": "Literal['ecmp', 'weighted', 'flowlet', 'spray']",
        "by": "Literal['capacity', 'rate']",
        "weight": "Sequence[WeightKeys]",
        "gap": "str",
        "entries": "int",
        "order": "Literal['random', 'round-robin']",
    },
    total=False,
)

BalancesKeys = TypedDict(
    "BalancesKeys",
    {
        "kind": "Literal['ecmp', 'weighted', 'flowlet', 'spray']",
        "switches": "str | Sequence[str]",
        "by": "Literal['capacity', 'rate']",
        "weight": "Sequence[WeightKeys]",
        "gap": "str",
        "entries": "int",
        "order": "Literal['random', 'round-robin']",
    },
    total=False,
)

NodeKeys = TypedDict(
    "NodeKeys",
    {
        "name": "str",
        "kind": "Literal['host', 'switch']",
        "count": "int",
    },
    total=False,
)

LinkKeys = TypedDict(
    "LinkKeys",
    {
        "from": "str | Sequence[str]",
        "to": "str | Sequence[str]",
        "mesh": "bool",
        "oneway": "bool",
        "back": "CableKeys",
        "rate": "str",
        "burst": "str",
        "overhead": "str",
        "delay": "str",
        "jitter": "str",
        "loss": "str",
        "loss_per": "Literal['packet', 'burst']",
        "duplicate": "str",
        "thin_acks": "bool",
        "queue": "QueueKeys",
        "record": "bool",
    },
    total=False,
)

NamedCableKeys = TypedDict(
    "NamedCableKeys",
    {
        "name": "str",
        "rate": "str",
        "burst": "str",
        "overhead": "str",
        "delay": "str",
        "jitter": "str",
        "loss": "str",
        "loss_per": "Literal['packet', 'burst']",
        "duplicate": "str",
        "thin_acks": "bool",
        "queue": "QueueKeys",
        "record": "bool",
    },
    total=False,
)

CoalesceKeys = TypedDict(
    "CoalesceKeys",
    {
        "dim": "Literal['off', 'eqe', 'cqe']",
        "frames": "int",
        "time": "str",
        "since": "Literal['first packet', 'last packet', 'last interrupt']",
        "adaptive": "bool",
        "rate_low": "int",
        "rate_high": "int",
        "interval": "str",
    },
    total=False,
)

CpuKeys = TypedDict(
    "CpuKeys",
    {
        "per_interrupt": "str",
        "per_packet": "str",
        "per_merged": "str",
        "per_ack": "str",
        "per_ack_sent": "str",
        "per_burst": "str",
        "per_byte": "str",
    },
    total=False,
)

ParamsKeys = Mapping[str, Any]

ConvergedKeys = TypedDict(
    "ConvergedKeys",
    {
        "within": "str",
        "over": "str",
        "hold": "str",
    },
    total=False,
)

FigureKeys = TypedDict(
    "FigureKeys",
    {
        "subject": "str",
        "metric": "str",
        "stat": "Literal['mean', 'sd', 'min', 'p50', 'p95', 'p99', 'p999', 'max']",
        "case": "str",
        "at": "AtKeys",
    },
    total=False,
)

QueueKeys = TypedDict(
    "QueueKeys",
    {
        "kind": "Literal['droptail', 'step', 'pie', 'share', 'red', 'codel', 'fq-codel', 'dualpi2', 'classes', 'two-buffers', 'trim', 'policer']",
        "limit": "str",
        "k": "str",
        "mark_at": "Literal['>=', '>']",
        "mark_when": "Literal['enqueue', 'dequeue']",
        "not_ect": "Literal['queue', 'drop']",
        "target": "str",
        "update_interval": "str",
        "first_update": "str",
        "alpha": "int",
        "beta": "int",
        "burst_allowance": "str",
        "ecn": "bool",
        "byte_mode": "bool",
        "delay": "Literal['timestamps', 'departure-rate']",
        "derandomise": "bool",
        "mark": "str",
        "every": "int",
        "min": "str",
        "max": "str",
        "max_p": "str",
        "wlog": "int",
        "packet_time": "str",
        "harddrop": "bool",
        "gentle": "bool",
        "adaptive": "bool",
        "interval": "str",
        "ce_threshold": "str",
        "ce_threshold_for": "Literal['any-ect', 'ect1']",
        "memory_limit": "str",
        "flows": "int",
        "quantum": "str",
        "drop_batch": "str",
        "coupling": "int",
        "step": "str",
        "low_latency": "Literal['ect1', 'any-ect']",
        "c_weight": "str",
        "drop_on_overload": "bool",
        "drop_early": "bool",
        "service": "Literal['weighted', 'strict']",
        "class": "Sequence[ClassKeys]",
        "second": "str | Sequence[str]",
        "alternate": "Literal['packets', 'bytes']",
        "limit_per": "Literal['buffer', 'port']",
        "queue": "QueueKeys",
        "headers": "str",
        "rate": "str",
        "burst": "str",
    },
    total=False,
)

StoppedClassKeys = TypedDict(
    "StoppedClassKeys",
    {
        "name": "str",
        "xoff": "str",
        "xon": "str",
    },
    total=False,
)

WeightKeys = TypedDict(
    "WeightKeys",
    {
        "from": "str | Sequence[str]",
        "to": "str | Sequence[str]",
        "weight": "int",
    },
    total=False,
)

ClassKeys = TypedDict(
    "ClassKeys",
    {
        "name": "str",
        "dscp": "int | Sequence[int]",
        "acks": "bool",
        "up_to": "str",
        "weight": "int",
        "strict": "bool",
        "queue": "QueueKeys",
    },
    total=False,
)

ExperimentKeys = TypedDict(
    "ExperimentKeys",
    {
        "question": "str",
        "expect": "str",
        "source": "str",
        "notes": "str",
        "published": "Sequence[PublishedKeys]",
        "claim": "Sequence[ClaimKeys]",
        "quick": "QuickKeys",
        "chart": "Sequence[ChartKeys]",
        "network": "NetworkKeys",
        "hosts": "HostsKeys",
        "host": "Sequence[HostKeys]",
        "traffic": "Sequence[TrafficKeys]",
        "case": "Sequence[CaseKeys]",
        "cc": "str | Sequence[str]",
        "module": "ModuleKeys",
        "vary": "VaryKeys",
        "run": "RunKeys",
        "sample": "SampleKeys",
        "output": "OutputKeys",
    },
    total=False,
)
