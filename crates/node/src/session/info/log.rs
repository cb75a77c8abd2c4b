//! INFO: the copies of the log. The figures of its streams are in the section about persistence.

use ::membership::control::CopyState;

use super::report::{Report, Text};
use crate::cluster::copied::{Seen, seen};
use crate::durability::copies::CopiesOfLog;

pub fn log(r: &Report<'_>, t: &mut Text) {
    t.title("Log");
    let durable = r.node.durable();
    match durable.as_ref().and_then(|durable| durable.copies()) {
        None => t.line("log_copies", u8::from(durable.is_some())),
        Some(copies) => write(&copies, &seen(r.node), t),
    }
}

fn write(copies: &CopiesOfLog, standbys: &[Seen], t: &mut Text) {
    t.line("log_copies", copies.copies.len());
    t.line("log_copies_counting", copies.counting());
    t.line("log_copies_answering", copies.answering());
    t.line("log_standbys", standbys.len());
    t.line("log_shard", copies.shard.0);
    t.line("log_term", copies.term.get());
    t.line("log_leads", u8::from(copies.leads));
    t.line("log_uncommitted_bytes", copies.uncommitted_bytes);
    for (number, copy) in copies.copies.iter().enumerate() {
        let state = match copy.report.state {
            CopyState::Failed if copy.is_own => "failed",
            _ if copy.is_own && copy.trouble.is_some() => "waits",
            _ if copy.is_own => "own",
            CopyState::Follows => "up",
            CopyState::Silent => "silent",
            CopyState::Full => "full",
            CopyState::Failed => "failed",
            CopyState::SetBack => "set-back",
        };
        let (counts, blocks, bytes) = (u8::from(copy.report.counts), copy.report.blocks, copy.report.bytes);
        // A place may have commas: it is the last.
        t.line(
            format_args!("log_copy_{number}"),
            format_args!(
                "state={state},counts={counts},blocks_behind={blocks},bytes_behind={bytes},window={},place={}",
                copy.sent, copy.place
            ),
        );
    }
    for (number, standby) in standbys.iter().enumerate() {
        let (state, up, address) = (standby.state(), u8::from(standby.is_up), standby.address());
        let behind = standby.following.map_or_else(Default::default, |(of, _)| (of.behind_bytes, of.behind_ms));
        t.line(
            format_args!("log_standby_{number}"),
            format_args!("state={state},up={up},bytes_behind={},ms_behind={},node={address}", behind.0, behind.1),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::copied::tests::seen_for_tests;
    use crate::durability::copies::tests::copies;

    #[test]
    fn a_copy_is_a_line() {
        let mut text = Text::default();
        write(&copies(), &[seen_for_tests(2)], &mut text);
        let expected = "log_copies:4\r\nlog_copies_counting:3\r\nlog_copies_answering:2\r\nlog_standbys:1\r\n\
            log_shard:7\r\nlog_term:0\r\nlog_leads:1\r\nlog_uncommitted_bytes:3072\r\n\
            log_copy_0:state=own,counts=1,blocks_behind=0,bytes_behind=0,window=0,place=10.0.0.1:6379/-\r\n\
            log_copy_1:state=silent,counts=1,blocks_behind=9,bytes_behind=9216,window=4,place=10.0.0.2:6379/-\r\n\
            log_copy_2:state=up,counts=1,blocks_behind=3,bytes_behind=3072,window=3,place=10.0.0.3:6379/-\r\n\
            log_copy_3:state=up,counts=0,blocks_behind=70,bytes_behind=71680,window=4,place=10.0.0.4:6379/-\r\n\
            log_standby_0:state=electable,up=1,bytes_behind=3072,ms_behind=12,node=10.0.0.1:7002\r\n";
        assert_eq!(text.0, expected);
    }
}
