//! Several nodes in one process, their links joined by pipes: what clients of any node see.

mod clocks;
mod crumbs;
mod leader;
mod ledger;
mod net;

mod blocks;
mod counting;
mod doubts;
mod elsewhere;
mod everywhere;
mod failures;
mod held_back;
mod inquiries;
mod interactive;
mod leavers;
mod leaving;
mod libraries;
mod lists;
mod long_waits;
mod members;
mod moments;
mod moves;
mod parts;
mod pipelines;
mod reads;
mod slices;
mod slow_scripts;
mod smart;
mod tracking;
mod transactions;
mod undeclared;
mod waitaof;
mod waiting;
mod watches;
mod workspaces;
