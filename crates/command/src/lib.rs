//! Command rows and handlers, one file per family; effects and their replay.
