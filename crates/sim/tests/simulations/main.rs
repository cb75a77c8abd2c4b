//! Simulations of nodes and of clusters, with and without mistakes made on purpose.

mod cluster;
mod cluster_planted;
mod planted;
mod seeds;
