//! Simulations of nodes and of clusters, with and without planted mistakes.

mod cluster;
mod cluster_planted;
mod copies;
mod copies_planted;
mod planted;
mod seeds;
