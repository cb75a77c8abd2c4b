//! The order of the steps, and the verdicts of each check by itself.

use ::command::{Dialect, Spec, flags};
use ::membership::Slot;
use engine::Room;
use resp::{Batch, Protocol};

use super::cluster::{
    Called, Forwarded, Keyless, OfBlock, OfClient, OfKeyless, OfScript, OfTransaction, OnCopies, Place, Runs,
};
use super::memory::{Shortage, Verdict};
use super::*;
use crate::table::Table;

const fn slot(number: u16) -> Slot {
    Slot::of(number)
}

/// A caller that notes the steps that it is asked for, and fails one of them.
struct Noting<const SCRIPT: bool> {
    asked: Vec<Step>,
    fails: Option<Step>,
}

impl<const SCRIPT: bool> Noting<SCRIPT> {
    fn note(&mut self, step: Step) -> Result<(), Step> {
        self.asked.push(step);
        if self.fails == Some(step) { Err(step) } else { Ok(()) }
    }
}

impl<const SCRIPT: bool> Caller for Noting<SCRIPT> {
    const ORDER: [Step; Step::COUNT] = if SCRIPT { AS_OF_SCRIPTS } else { AS_OF_CLIENTS };
    type Instead = Step;

    fn arity(&mut self, _: &Command, _: Args<'_>) -> Result<(), Step> {
        self.note(Step::Arity)
    }

    fn rights(&mut self, _: &Command, _: Args<'_>) -> Result<(), Step> {
        self.note(Step::Rights)
    }

    fn state(&mut self, _: &Command, _: Args<'_>) -> Result<(), Step> {
        self.note(Step::State)
    }

    fn cluster(&mut self, _: &Command, _: Args<'_>) -> Result<(), Step> {
        self.note(Step::Cluster)
    }

    fn write(&mut self, _: &Command, _: Args<'_>) -> Result<(), Step> {
        self.note(Step::Write)
    }

    fn memory(&mut self, _: &Command, _: Args<'_>) -> Result<(), Step> {
        self.note(Step::Memory)
    }

    fn now(&mut self, _: &Command, _: Args<'_>) -> Result<(), Step> {
        self.note(Step::Now)
    }
}

fn take_through<const SCRIPT: bool>(fails: Option<Step>) -> (Vec<Step>, Result<String, Step>) {
    let (table, mut batch) = (Table::new(), Batch::new());
    assert!(batch.push_copy([&b"GET"[..], b"key"]));
    let mut caller = Noting::<SCRIPT> { asked: Vec::new(), fails };
    let admitted = admit(table.find(b"get").unwrap(), batch.args(0, &[]), &mut caller);
    (caller.asked, admitted.map(|admitted| admitted.name.clone()))
}

#[test]
fn a_command_is_admitted_after_every_step_and_no_sooner() {
    assert_eq!(take_through::<false>(None), (AS_OF_CLIENTS.to_vec(), Ok("get".into())));
    assert_eq!(take_through::<true>(None), (AS_OF_SCRIPTS.to_vec(), Ok("get".into())));
    for (at, step) in AS_OF_CLIENTS.into_iter().enumerate() {
        assert_eq!(take_through::<false>(Some(step)), (AS_OF_CLIENTS[..=at].to_vec(), Err(step)));
    }
}

#[test]
fn an_order_that_leaves_a_step_out_is_not_whole() {
    assert!(is_whole(&AS_OF_CLIENTS) && is_whole(&AS_OF_SCRIPTS));
    let mut twice = AS_OF_CLIENTS;
    twice[1] = Step::Arity;
    assert!(!is_whole(&twice));
}

#[test]
fn a_stranger_may_log_in_and_send_and_be_sent_little() {
    let (plain, login) = (Spec { ..Spec::NEW }, Spec { flags: flags::NO_AUTH, ..Spec::NEW });
    assert!(rights::must_log_in(&plain, false) && !rights::must_log_in(&login, false));
    assert!(!rights::must_log_in(&plain, true));
    assert!(rights::sent_too_much(false, (1 << 20) + 1, u64::MAX) && !rights::sent_too_much(false, 1 << 20, u64::MAX));
    assert!(!rights::sent_too_much(true, 1 << 30, 1 << 30) && rights::sent_too_much(true, 2, 1));
    assert_eq!((rights::parsed_at_once(false, 64), rights::parsed_at_once(true, 64)), (1, 64));
    let normal = crate::config::OutputLimit { hard: 0, soft: 0, seconds: 0 };
    assert_eq!((rights::output_limit(false, normal).hard, rights::output_limit(true, normal).hard), (1024, 0));
}

/// The error of a command in a state of the session.
fn refusal(name: &str, flags: u32, change: impl FnOnce(&mut (bool, bool, bool, bool, bool, Protocol))) -> String {
    let mut state = (true, false, true, false, false, Protocol::Resp2);
    change(&mut state);
    let (clustered, in_block, debug_open, monitors, subscribed, protocol) = state;
    let view = state::View {
        clustered,
        in_block,
        debug_open: || debug_open,
        monitors,
        subscribed,
        protocol,
        dialect: Dialect::default(),
    };
    let refusal = state::refusal(name, &Spec { flags, ..Spec::NEW }, view).unwrap_or_default();
    String::from_utf8(refusal).unwrap()
}

#[test]
fn the_state_of_a_session_decides() {
    assert_eq!(refusal("get", flags::READONLY, |_| {}), "");
    assert_eq!(refusal("begin", flags::NEEDS_CLUSTER, |view| view.0 = false), state::NO_CLUSTER);
    let in_block = refusal("begin", flags::NO_MULTI, |view| view.1 = true);
    assert_eq!(in_block, "ERR Command not allowed inside a transaction");
    assert!(refusal("debug", flags::PROTECTED, |view| view.2 = false).starts_with("ERR DEBUG command not allowed."));
    let monitor = refusal("get", flags::READONLY, |view| view.3 = true);
    assert_eq!(monitor, "ERR Replica can't interact with the keyspace");
    let subscribed = refusal("get", flags::READONLY, |view| view.4 = true);
    assert!(subscribed.starts_with("ERR Can't execute 'get': only (P|S)SUBSCRIBE"), "{subscribed}");
    assert_eq!(refusal("ping", 0, |view| view.4 = true), "");
    assert_eq!(refusal("get", flags::READONLY, |view| (view.4, view.5) = (true, Protocol::Resp3)), "");
}

#[test]
fn scripts_call_what_is_open_to_them() {
    let bars = |flags, open| state::is_barred_from_scripts(&Spec { flags, ..Spec::NEW }, open);
    assert!(!bars(0, None) && bars(flags::NOSCRIPT, None) && !bars(flags::NOSCRIPT, Some(false)));
    let debug = flags::NOSCRIPT | flags::PROTECTED;
    assert!(bars(debug, Some(false)) && !bars(debug, Some(true)));
    assert!(bars(flags::NOSCRIPT | flags::BLOCKING, Some(true)), "nothing opens what waits");
    let writes = Spec { flags: flags::WRITE | flags::DENYOOM, ..Spec::NEW };
    assert!(write::refusal_of_script(&writes, true).is_some() && write::refusal_of_script(&writes, false).is_none());
    assert!(memory::refuses_script(&writes, true, false));
    assert!(!memory::refuses_script(&writes, true, true), "it has begun to write");
    assert!(!memory::refuses_script(&writes, false, false));
}

#[test]
fn only_what_needs_memory_waits_for_room_or_is_refused() {
    let verdict = |room, needs: bool, more, must_wait: bool, log_delays: bool| {
        memory::verdict(room, Shortage { needs: || needs, more, must_wait: || must_wait, log_delays: || log_delays })
    };
    for room in [Room::Enough, Room::Soon, Room::Dirty, Room::None] {
        assert_eq!(verdict(room, false, 1, true, true), Verdict::GoesOn);
    }
    assert_eq!(verdict(Room::Enough, true, 1, true, true), Verdict::GoesOn);
    assert_eq!(verdict(Room::Soon, true, 0, false, false), Verdict::GoesOn);
    assert_eq!(verdict(Room::Soon, true, 1, false, false), Verdict::Retries);
    assert_eq!(verdict(Room::Soon, true, 0, true, false), Verdict::Retries);
    assert_eq!(verdict(Room::Dirty, true, 0, false, false), Verdict::AwaitsRoom);
    assert_eq!(verdict(Room::None, true, 0, false, true), Verdict::AwaitsLog);
    assert_eq!(verdict(Room::None, true, 0, false, false), Verdict::Refused);
}

/// Places: this node, another node, a lost node.
const ME: u16 = 0;
const OTHER: u16 = 1;
const LOST: u16 = 2;

fn of_client(place: Place, serves: bool, moves: bool, queues: bool, belongs: bool, alone: bool) -> Runs {
    let client = OfClient {
        me: ME,
        serves,
        moves,
        queues,
        calls_function: || false,
        belongs_here: || belongs,
        on_keys_alone: || alone,
        is_lost: |owner| owner == LOST,
    };
    client.runs(place)
}

#[test]
fn a_client_s_command_runs_where_its_keys_are() {
    let plain = |place| of_client(place, true, false, false, false, true);
    let smart = |place| of_client(place, true, true, false, false, true);
    assert_eq!(plain(Place::Anywhere), Runs::Here);
    assert_eq!(plain(Place::At(ME, slot(5))), Runs::Here);
    assert_eq!(of_client(Place::At(ME, slot(5)), false, false, false, false, true), Runs::NoLease);
    assert_eq!(plain(Place::At(OTHER, slot(5))), Runs::At(OTHER));
    assert_eq!(smart(Place::At(OTHER, slot(5))), Runs::Moved(slot(5), OTHER));
    assert_eq!(
        (plain(Place::At(LOST, slot(5))), smart(Place::At(LOST, slot(5)))),
        (Runs::At(LOST), Runs::Refused(cluster::NO_OWNER))
    );
    assert_eq!(plain(Place::Nobody), Runs::Refused(cluster::NO_OWNER));
    assert_eq!(plain(Place::Several), Runs::OverNodes);
    assert!(matches!(of_client(Place::Several, true, false, false, false, false), Runs::Refused(_)));
    assert_eq!(of_client(Place::Several, true, true, true, false, false), Runs::WithItsBlock);
    assert_eq!(of_client(Place::At(OTHER, slot(5)), true, true, true, true, true), Runs::WithItsBlock);
    assert_eq!(of_client(Place::At(OTHER, slot(5)), true, true, true, false, true), Runs::Moved(slot(5), OTHER));
}

#[test]
fn a_smart_client_means_the_node_that_it_asks() {
    let of = |serves, moves, queues| OfKeyless { alone: false, serves, moves, queues };
    let (plain, smart) = (of(true, false, false), of(true, true, false));
    assert_eq!([plain.gathers(false, true), plain.scans()], [Keyless::AtAll, Keyless::AtSlot]);
    assert_eq!([smart.gathers(false, true), smart.scans()], [Keyless::Here; 2]);
    assert_eq!([smart.gathers(true, true), plain.names_slot()], [Keyless::AtAll, Keyless::AtSlot]);
    let without_lease = of(false, true, false);
    assert_eq!([without_lease.gathers(false, true), without_lease.scans()], [Keyless::NoLease; 2]);
    assert_eq!(without_lease.changes_libraries(), Keyless::NoLease);
    // CLIENT KILL needs no lease.
    assert_eq!([without_lease.gathers(false, false), without_lease.names_slot()], [Keyless::Here; 2]);
    let queued = of(false, true, true);
    assert_eq!([queued.gathers(true, true), queued.scans(), queued.changes_libraries()], [Keyless::Here; 3]);
    assert_eq!(OfKeyless { alone: true, ..plain }.gathers(true, true), Keyless::Here);
    let outside = |is_local, queues| cluster::refuses_outside(true, is_local, queues);
    assert_eq!([outside(false, false), outside(true, false), outside(false, true)], [true, false, false]);
}

#[test]
fn watch_goes_where_its_keys_are() {
    let watch = |place, serves| cluster::of_watch(place, ME, serves);
    assert_eq!(watch(Place::Anywhere, false), Runs::Here);
    assert_eq!([true, false].map(|serves| watch(Place::At(ME, slot(5)), serves)), [Runs::Here, Runs::NoLease]);
    assert_eq!(watch(Place::At(OTHER, slot(5)), false), Runs::At(OTHER));
    assert_eq!(watch(Place::Nobody, true), Runs::Refused(cluster::NO_OWNER));
    assert_eq!(watch(Place::Several, true), Runs::OverNodes);
}

#[test]
fn a_block_runs_as_a_whole_or_over_nodes() {
    let (here, there) = (Place::At(ME, slot(5)), Place::At(OTHER, slot(6)));
    let of = |keys, watched| OfBlock {
        me: ME,
        alone: false,
        serves: true,
        keys,
        watched,
        watched_here: if watched == here { here } else { Place::Anywhere },
        everything: false,
        own: false,
        functions: false,
    };
    let plain = of(here, Place::Anywhere);
    let elsewhere = of(there, Place::Anywhere);
    assert_eq!([plain.runs(), elsewhere.runs()], [Runs::Here, Runs::At(OTHER)]);
    assert_eq!(OfBlock { serves: false, ..plain }.runs(), Runs::NoLease);
    assert_eq!([of(there, here).runs(), of(Place::Several, Place::Anywhere).runs()], [Runs::OverNodes; 2]);
    // The block needs this node as well, or has no keys but those that the client watches.
    assert_eq!([OfBlock { own: true, ..elsewhere }.runs(), of(Place::Anywhere, there).runs()], [Runs::OverNodes; 2]);
    assert_eq!(OfBlock { everything: true, ..plain }.runs(), Runs::Refused(cluster::EVERYTHING));
    assert_eq!(OfBlock { everything: true, alone: true, ..plain }.runs(), Runs::Here);
    assert_eq!(OfBlock { functions: true, ..of(Place::Several, Place::Anywhere) }.runs(), Runs::NoLease);
    assert_eq!(of(Place::Nobody, Place::Anywhere).runs(), Runs::Refused(cluster::NO_OWNER));
}

#[test]
fn a_transaction_takes_what_is_about_keys() {
    let keys = |alone, calls_function| OfTransaction::Keys { alone, calls_function };
    assert_eq!([keys(true, false), OfTransaction::Message].map(|about| about.runs(false)), [Runs::OverNodes; 2]);
    assert_eq!([true, false].map(|serves| keys(true, true).runs(serves)), [Runs::OverNodes, Runs::NoLease]);
    assert_eq!(OfTransaction::Connection.runs(false), Runs::Here);
    let refused = [keys(false, false), OfTransaction::Everything].map(|about| about.runs(true));
    assert_eq!(refused, [Runs::Refused(cluster::NOT_HERE); 2]);
}

#[test]
fn what_is_forwarded_runs_at_the_owner_with_a_lease_or_nowhere() {
    let forwarded = |place, serves, behind: bool| cluster::of_forwarded(place, ME, serves, || behind);
    assert_eq!(forwarded(Place::Anywhere, false, true), Forwarded::Runs);
    assert_eq!(forwarded(Place::At(ME, slot(5)), true, true), Forwarded::AwaitsMap);
    assert_eq!(forwarded(Place::At(ME, slot(5)), true, false), Forwarded::Runs);
    assert_eq!(forwarded(Place::At(ME, slot(5)), false, false), Forwarded::NoLease);
    assert_eq!(forwarded(Place::At(OTHER, slot(5)), true, false), Forwarded::GoesBack);
    assert_eq!(forwarded(Place::Several, true, false), Forwarded::GoesBack);
    assert_eq!(forwarded(Place::Nobody, true, false), Forwarded::Refused(cluster::NO_OWNER));
}

#[test]
fn a_script_that_can_be_undone_is_undone_and_one_that_cannot_goes_on_with_what_it_holds() {
    let script = |serves, can_be_undone, is_old| OfScript { me: ME, serves, can_be_undone, is_old };
    let calls = |script: OfScript, place| script.calls_with_keys(place, false, || true);
    assert_eq!(calls(script(true, true, false), Place::At(ME, slot(5))), Called::Runs);
    assert_eq!(calls(script(false, true, false), Place::At(ME, slot(5))), Called::UndoesForLease);
    assert_eq!(calls(script(false, false, false), Place::At(ME, slot(5))), Called::Runs);
    assert_eq!(script(false, true, false).calls_with_keys(Place::At(ME, slot(5)), true, || true), Called::Runs);
    assert_eq!(calls(script(true, true, false), Place::Several), Called::Fails(cluster::SEVERAL));
    assert_eq!(calls(script(true, true, true), Place::At(OTHER, slot(5))), Called::Elsewhere);
    assert_eq!(calls(script(true, false, true), Place::At(OTHER, slot(5))), Called::Runs);
    assert_eq!(calls(script(true, true, false), Place::Nobody), Called::Undoes(cluster::NO_OWNER));
    let patterns = script(true, true, false).calls_with_keys(Place::Several, false, || false);
    assert_eq!(patterns, Called::Fails(cluster::EVERYTHING));
    assert_eq!(script(true, true, false).calls_for_everything(), Called::Fails(cluster::EVERYTHING));
    assert_eq!(cluster::of_workspace(OnCopies::Everything), Some(cluster::EVERYTHING));
    assert_eq!([OnCopies::Keys, OnCopies::IsAsked].map(cluster::of_workspace), [None, None]);
}

#[test]
fn errors_repeat_little_of_what_a_client_says() {
    let mut batch = Batch::new();
    assert!(batch.push_copy([&[b'n'; 300][..], &[b'a'; 100], &[b'b'; 100], b"c"]));
    let text = String::from_utf8(arity::unknown(batch.args(0, &[]))).unwrap();
    let expected = format!(
        "ERR unknown command '{}', with args beginning with: '{}' '{}' ",
        "n".repeat(128),
        "a".repeat(100),
        "b".repeat(24)
    );
    assert_eq!(text, expected);
    assert_eq!(arity::wrong("get"), b"ERR wrong number of arguments for 'get' command");
    let unknown = arity::unknown_subcommand("config", false, b"wrong");
    assert_eq!(unknown, b"ERR unknown subcommand 'wrong'. Try CONFIG HELP.");
}
