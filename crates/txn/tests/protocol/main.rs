//! The machines of transactions over nodes: their messages one by one, their models, their simulations.

mod answers;
mod formats;
mod glue;
mod hostile;
mod locks;
mod models;
mod moments;
mod reads;
mod simulation;
mod widening;
