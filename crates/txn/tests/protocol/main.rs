//! The machines of transactions over nodes: single messages, models, simulations.

mod answers;
mod formats;
mod glue;
mod heirs;
mod hostile;
mod locks;
mod models;
mod moments;
mod reads;
mod simulation;
mod widening;
