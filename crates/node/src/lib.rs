//! The sans-IO worker: sessions, MULTI and WATCH, CONFIG, INFO, CLIENT.

pub mod config;
