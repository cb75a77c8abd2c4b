//! Clients that mean harm, or know no better. Their input costs bounded memory and time, they get a clear error where
//! one can be sent, and others notice nothing.
//!
//! `HOLDFAST_LONG=1` runs the sizes of an attack (10,000 connections, values of 512 MB) instead of a sketch of them.
#![allow(clippy::disallowed_methods, reason = "tests wait for real time")]

mod connections;
mod crowd;
mod input;
mod long;
mod output;
mod sizes;
#[path = "../support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use resp::Value;
use support::attack::{Server, simple};

under_both_drivers! { "2":
    input::slow_connections
    input::half_sent_commands
    input::giant_lengths
    input::strangers_send_little
    input::requests_of_http_end_the_connection
    input::strangers_need_the_password_of_now
    input::long_lines
    input::a_pipeline_of_100_000
    input::a_pipeline_longer_than_the_query_buffer
    input::the_query_buffer_has_a_limit
    output::who_never_reads_is_cut_off
    output::who_never_reads_can_be_killed
    output::who_read_too_slowly_for_too_long_is_cut_off
    output::a_pipeline_of_large_replies_stops_at_the_limit
    output::large_replies_are_not_moved_about
    long::long_strings_are_of_their_moment
    long::long_strings_are_let_go_of
    long::what_was_large_is_given_back
    long::long_collections_are_of_their_moment
    long::long_collections_wait_for_their_reader
    connections::clients_have_a_limit
    connections::descriptors_run_out
    connections::the_log_has_descriptors_left
    connections::the_log_waits_for_descriptors
    connections::checkpoints_wait_for_descriptors
    connections::half_closed_gets_all_replies
    connections::half_closed_while_waiting
    connections::resets
    connections::storms
    connections::leaving_in_the_middle_of_things
    connections::killed_while_sending
    connections::the_end_under_load
    crowd::the_largest_goes_first
    crowd::who_must_not_be_evicted_stays
    sizes::large_values
    sizes::too_large_values
    sizes::large_arguments_in_pieces
    sizes::walks_and_flushes_let_others_run
    sizes::many_who_wait_for_one_key
}

fn error(text: &str) -> Value {
    Value::Error(text.into())
}

fn ok() -> Value {
    simple("OK")
}

fn falls_to(server: &Server, field: &str, most: u64) {
    let mut client = server.connect();
    let deadline = Instant::now() + support::attack::PATIENCE;
    loop {
        let seen = client.info(field);
        if seen <= most {
            return;
        }
        assert!(Instant::now() < deadline, "{field} stays at {seen}, above {most}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
