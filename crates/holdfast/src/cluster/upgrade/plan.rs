//! Which machine is restarted next, and what must hold before that. Pure.

use membership::level;

use super::view::{Shard, View};

/// A machine with members of the cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Machine {
    pub name: String,
    /// The addresses of its members.
    pub members: Vec<String>,
    /// How many shards its nodes own.
    pub owns: usize,
    /// One of its members leads the metadata.
    pub leads: bool,
    /// It has log-servers alone.
    pub is_log_server: bool,
}

/// A shard that is to change hands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Move {
    pub shard: u32,
    pub from: String,
    pub to: String,
}

/// The machines, in the order of their restarts: log-servers and standbys first, then owners, and the leader of the
/// metadata last.
pub fn machines(view: &View) -> Vec<Machine> {
    let mut machines: Vec<Machine> = Vec::new();
    for member in &view.members {
        let at = machines.iter().position(|machine| machine.name == member.machine).unwrap_or_else(|| {
            let (name, members) = (member.machine.clone(), Vec::new());
            machines.push(Machine { name, members, owns: 0, leads: false, is_log_server: true });
            machines.len() - 1
        });
        let machine = &mut machines[at];
        machine.members.push(member.address.clone());
        machine.leads |= member.leads;
        machine.is_log_server &= member.is_log_server;
        machine.owns += usize::from(member.slots > 0);
    }
    machines.sort_by_key(|machine| (machine.leads, machine.owns, !machine.is_log_server));
    machines
}

/// Checks that the cluster takes nodes of this build.
///
/// # Errors
/// It is at a level that this build does not speak.
pub fn fits(view: &View) -> Result<(), String> {
    if (level::FIRST..=level::HIGHEST).contains(&view.level) {
        return Ok(());
    }
    Err(format!(
        "the cluster is at level {}, and this build speaks {} to {}: its nodes would be refused",
        view.level,
        level::FIRST,
        level::HIGHEST
    ))
}

/// The parts of the cluster that are not whole now: no machine is restarted while there is anything.
pub fn troubles(view: &View) -> Vec<String> {
    let mut troubles = view.problems.clone();
    if !view.is_well && troubles.is_empty() {
        troubles.push("the cluster is not well".to_owned());
    }
    for shard in &view.shards {
        if shard.is_behind {
            troubles.push(format!("a copy of the log of shard {} is behind", shard.number));
        }
        for standby in shard.standbys.iter().filter(|standby| !standby.is_electable()) {
            let (number, place, state) = (shard.number, &standby.address, &standby.state);
            troubles.push(format!("the standby of shard {number} at {place} is not electable, but {state}"));
        }
    }
    if !view.members.iter().any(|member| member.leads) {
        troubles.push("nobody leads the metadata".to_owned());
    }
    troubles
}

/// What clients would have to wait for while a machine is away, once it has given away what it can.
pub fn pauses(view: &View, machine: &Machine) -> Vec<String> {
    let (name, mut pauses) = (&machine.name, Vec::new());
    let is_there = |address: &String| machine.members.contains(address);
    let moves = moves(view, machine);
    for member in view.members.iter().filter(|member| member.slots > 0 && member.machine == *name) {
        let gives = |of: &&Shard| of.owner == member.address && moves.iter().any(|gives| gives.shard == of.number);
        if !view.shards.iter().any(|shard| gives(&shard)) {
            let (place, slots) = (&member.address, member.slots);
            pauses.push(format!("no standby on another machine can have the {slots} slots of the node at {place}"));
        }
    }
    for shard in view.shards.iter().filter(|shard| shard.copies.len() > 1) {
        let left = shard.copies.iter().filter(|copy| !is_there(copy)).count();
        if left <= shard.copies.len() / 2 {
            let (all, number) = (shard.copies.len(), shard.number);
            pauses.push(format!("{left} of the {all} copies of the log of shard {number} are elsewhere"));
        }
    }
    let voters: Vec<bool> = view.members.iter().filter(|of| of.votes).map(|of| of.machine == *name).collect();
    let left = voters.iter().filter(|is_here| !**is_here).count();
    if left <= voters.len() / 2 {
        pauses.push(format!("{left} of the {} voting members are elsewhere", voters.len()));
    }
    pauses
}

/// The shards that a machine gives away before its restart, and where to: to the machine that owns the fewest.
pub fn moves(view: &View, machine: &Machine) -> Vec<Move> {
    let owns = |address: &str| view.owned_on(view.machine(address)).count();
    let give = |shard: &Shard| {
        let elsewhere = shard.standbys.iter().filter(|of| of.is_electable() && !machine.members.contains(&of.address));
        let to = elsewhere.min_by_key(|of| owns(&of.address))?;
        Some(Move { shard: shard.number, from: shard.owner.clone(), to: to.address.clone() })
    };
    view.owned_on(&machine.name).filter_map(give).collect()
}

/// A shard that one machine more than others has, and that goes to one that owns two fewer.
pub fn balance(view: &View) -> Option<Move> {
    let owns = |address: &str| view.owned_on(view.machine(address)).count();
    let give = |shard: &Shard| {
        let of_owner = owns(&shard.owner);
        let to = shard.standbys.iter().filter(|of| of.is_electable() && owns(&of.address) + 1 < of_owner);
        let to = to.min_by_key(|of| owns(&of.address))?;
        Some(Move { shard: shard.number, from: shard.owner.clone(), to: to.address.clone() })
    };
    view.shards.iter().find_map(give)
}

#[cfg(test)]
mod tests {
    use super::super::view::tests::STATUS;
    use super::*;

    fn view() -> View {
        View::read(&STATUS.replace("electable, down", "electable      ").replace("(catches up, 3.00M behind)", ""))
            .unwrap()
    }

    fn names(view: &View) -> Vec<String> {
        machines(view).into_iter().map(|machine| machine.name).collect()
    }

    fn machine(view: &View, name: &str) -> Machine {
        machines(view).into_iter().find(|machine| machine.name == name).unwrap()
    }

    /// The shard is at its standby now, and its former owner stands by.
    fn given(mut view: View, number: u32) -> View {
        let shard = view.shards.iter_mut().find(|shard| shard.number == number).unwrap();
        let owner = std::mem::replace(&mut shard.owner, shard.standbys[0].address.clone());
        shard.standbys[0].address = owner.clone();
        let slots = view.members.iter().find(|member| member.address == owner).unwrap().slots;
        for member in &mut view.members {
            member.slots = match () {
                () if member.address == owner => 0,
                () if member.address == shard.owner => slots,
                () => member.slots,
            };
        }
        view
    }

    #[test]
    fn log_servers_go_first_then_standbys_then_owners_and_the_leader_last() {
        assert_eq!(names(&view()), ["10.0.0.4:6379", "a", "b", "c"]);
        // The machine that has given its shard away owns none.
        assert_eq!(names(&given(view(), 2)), ["10.0.0.4:6379", "b", "a", "c"]);
        let mut other = view();
        other.members.iter_mut().for_each(|member| member.leads = member.id == "da");
        assert_eq!(names(&other), ["a", "b", "c", "10.0.0.4:6379"]);
    }

    #[test]
    fn a_machine_gives_its_shards_away_and_gets_its_share_back() {
        let gives = |view: &View, name: &str| {
            let moves = moves(view, &machine(view, name));
            moves.into_iter().map(|of| format!("{} {}", of.shard, of.to)).collect::<Vec<_>>()
        };
        let mut now = view();
        assert_eq!(gives(&now, "10.0.0.4:6379"), [""; 0]);
        for (name, expected) in [
            ("a", &["1 10.0.0.2:6380"][..]),
            ("b", &["1 10.0.0.1:6379", "2 10.0.0.3:6380"]),
            ("c", &["2 10.0.0.2:6379", "3 10.0.0.1:6380"]),
        ] {
            assert_eq!(gives(&now, name), expected);
            for of in moves(&now, &machine(&now, name)) {
                now = given(now, of.shard);
            }
            assert_eq!(now.owned_on(name).count(), 0);
        }
        // The last one has none now, and the first one two.
        let of = balance(&now).unwrap();
        assert_eq!((of.shard, of.to.as_str()), (3, "10.0.0.3:6379"));
        assert_eq!(balance(&given(now, 3)), None);
        assert_eq!(balance(&view()), None);
    }

    #[test]
    fn nothing_is_restarted_that_clients_would_wait_for() {
        let all = |view: &View| machines(view).iter().flat_map(|machine| pauses(view, machine)).collect::<Vec<_>>();
        assert_eq!(all(&view()), [""; 0]);
        let mut alone = view();
        alone.shards[0].standbys.clear();
        assert_eq!(all(&alone), ["no standby on another machine can have the 5461 slots of the node at 10.0.0.1:6379"]);
        let mut same = view();
        same.shards[0].standbys[0].address = "10.0.0.1:6380".to_owned();
        assert_eq!(all(&same).len(), 1);
        let mut logs = view();
        logs.shards[2].copies[2] = "10.0.0.1:6379".to_owned();
        assert_eq!(all(&logs), ["1 of the 3 copies of the log of shard 3 are elsewhere"]);
        let mut voters = view();
        voters.members.iter_mut().for_each(|member| member.votes = ["a", "c"].contains(&&*member.machine));
        assert_eq!(all(&voters).len(), 2, "{:?}", all(&voters));
        // A cluster without copies of data.
        let mut plain = view();
        plain.shards.clear();
        assert_eq!(all(&plain).len(), 3);
    }

    #[test]
    fn nothing_is_restarted_before_all_is_whole() {
        assert_eq!(troubles(&view()), [""; 0]);
        let troubled = troubles(&View::read(STATUS).unwrap());
        assert_eq!(
            troubled,
            [
                "a copy of the log of shard 2 is behind",
                "the standby of shard 2 at 10.0.0.3:6380 is not electable, but electable, down"
            ]
        );
        let text = STATUS.replace("health: ok\n\n", "health: not ok\n\n  node ab at 10.0.0.1:6380 is down\n");
        assert!(troubles(&View::read(&text).unwrap()).contains(&"node ab at 10.0.0.1:6380 is down".to_owned()));
    }

    #[test]
    fn a_build_must_speak_the_level_of_the_cluster() {
        assert_eq!(fits(&view()), Ok(()));
        for level in [level::FIRST - 1, level::HIGHEST + 1] {
            assert!(fits(&View { level, ..view() }).is_err());
        }
    }
}
