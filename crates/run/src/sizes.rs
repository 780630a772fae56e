//! Published distributions of transfer sizes: points of cumulative distributions, linear between points.

/// Points: size in bytes, and the share of transfers up to that size.
pub type Points = &'static [(u64, f64)];

/// Web search: figure 4 of the DCTCP paper (SIGCOMM 2010), as read off for simulations in later papers. Shares are
/// accurate to about 0.02. The mean, 1.7 MB, depends on the last three points.
pub const WEB_SEARCH: Points = &[
    (1, 0.0),
    (10_000, 0.15),
    (20_000, 0.2),
    (30_000, 0.3),
    (50_000, 0.4),
    (80_000, 0.53),
    (200_000, 0.6),
    (1_000_000, 0.7),
    (2_000_000, 0.8),
    (5_000_000, 0.9),
    (10_000_000, 0.97),
    (30_000_000, 1.0),
];

/// Data mining: figure 2 of the VL2 paper (SIGCOMM 2009), read off in the same way. Its text says that 99 % of the
/// flows are below 100 MB. Some readings use 98 %, which gives nearly twice the mean of 7.7 MB here.
pub const DATA_MINING: Points = &[
    (1, 0.0),
    (180, 0.1),
    (216, 0.2),
    (560, 0.3),
    (900, 0.4),
    (1_100, 0.5),
    (1_870, 0.6),
    (3_160, 0.7),
    (10_000, 0.8),
    (400_000, 0.9),
    (3_160_000, 0.95),
    (100_000_000, 0.99),
    (1_000_000_000, 1.0),
];

/// Hadoop at Facebook: figure 6 of Roy et al. (SIGCOMM 2015), as the authors of HPCC (SIGCOMM 2019) read it for their
/// simulations: `traffic_gen/FbHdp_distribution.txt` of `alibaba-edu/High-Precision-Congestion-Control`. Mean 120 kB.
/// The reading by Homa's authors (SIGCOMM 2018), `Facebook_HadoopDist_All.txt`, differs by up to 0.06 and has a mean
/// of 135 kB.
pub const HADOOP: Points = &[
    (1, 0.0),
    (100, 0.01),
    (200, 0.02),
    (300, 0.05),
    (350, 0.15),
    (400, 0.2),
    (500, 0.3),
    (600, 0.4),
    (700, 0.5),
    (1_000, 0.6),
    (2_000, 0.67),
    (7_000, 0.7),
    (30_000, 0.72),
    (50_000, 0.82),
    (80_000, 0.87),
    (120_000, 0.9),
    (300_000, 0.95),
    (1_000_000, 0.975),
    (2_000_000, 0.99),
    (10_000_000, 1.0),
];

/// Cache followers at Facebook, within a cluster: figure 6 of Roy et al. (SIGCOMM 2015), as Homa's authors read it:
/// `Facebook_CacheFollowerDist_IntraCluster.txt` of `PlatformLab/HomaSimulation`. Of its 66 points, those that keep
/// all others within 0.01. Mean 687 kB, with and without the others.
pub const CACHE_FOLLOWER: Points = &[
    (68, 0.0204),
    (266, 0.0539),
    (340, 0.1803),
    (490, 0.277),
    (639, 0.3178),
    (707, 0.3532),
    (1_440, 0.4238),
    (3_466, 0.4572),
    (8_000, 0.4758),
    (28_270, 0.5),
    (276_998, 0.6394),
    (391_670, 0.6766),
    (588_724, 0.7138),
    (1_503_111, 0.723),
    (2_827_011, 0.974),
    (3_006_219, 0.9888),
    (3_837_698, 1.0),
];

/// Alibaba's block storage, measured in 2019: numbers of HPCC's authors themselves, `traffic_gen/AliStorage2019.txt`
/// of `alibaba-edu/High-Precision-Congestion-Control`. Mean 41 kB.
pub const STORAGE: Points = &[
    (1, 0.0),
    (4_000, 0.2293),
    (8_000, 0.6921),
    (16_000, 0.8061),
    (32_000, 0.9047),
    (64_000, 0.9353),
    (128_000, 0.9677),
    (256_000, 0.9753),
    (2_000_000, 1.0),
];

/// All of them, by the names that experiments use.
pub const PUBLISHED: [(&str, Points); 5] = [
    ("web-search", WEB_SEARCH),
    ("data-mining", DATA_MINING),
    ("hadoop", HADOOP),
    ("cache-follower", CACHE_FOLLOWER),
    ("storage", STORAGE),
];
