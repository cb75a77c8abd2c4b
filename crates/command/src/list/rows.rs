//! The declarations of the commands on lists.

use super::{blocking, change, pop, push, read, transfer};
use crate::families::Run;
use crate::spec::{KeySpec, Row, Spec, flags::*, key_flags::*};

/// The rows of the family.
pub const ROWS: &[Row<Run>] = &[
    Row {
        spec: Spec {
            name: "lpush",
            arity: -3,
            flags: WRITE | DENYOOM | FAST,
            keys: &[KeySpec::one(1, RW | INSERT)],
            group: "list",
            complexity: "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.",
            summary: "Prepends one or more elements to a list. Creates the key if it doesn't exist.",
            syntax: "key element [element ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(push::lpush),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "rpush",
            arity: -3,
            flags: WRITE | DENYOOM | FAST,
            keys: &[KeySpec::one(1, RW | INSERT)],
            group: "list",
            complexity: "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.",
            summary: "Appends one or more elements to a list. Creates the key if it doesn't exist.",
            syntax: "key element [element ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(push::rpush),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "lpushx",
            arity: -3,
            flags: WRITE | DENYOOM | FAST,
            keys: &[KeySpec::one(1, RW | INSERT)],
            group: "list",
            since: "2.2.0",
            complexity: "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.",
            summary: "Prepends one or more elements to a list only when the list exists.",
            syntax: "key element [element ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(push::lpushx),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "rpushx",
            arity: -3,
            flags: WRITE | DENYOOM | FAST,
            keys: &[KeySpec::one(1, RW | INSERT)],
            group: "list",
            since: "2.2.0",
            complexity: "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.",
            summary: "Appends an element to a list only when the list exists.",
            syntax: "key element [element ...]",
            ..Spec::NEW
        },
        run: Run::Keyed(push::rpushx),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "lpop",
            arity: -2,
            flags: WRITE | FAST,
            keys: &[KeySpec::one(1, RW | ACCESS | DELETE)],
            group: "list",
            complexity: "O(N) where N is the number of elements returned",
            summary: "Returns the first elements in a list after removing it. Deletes the list if the last element was popped.",
            syntax: "key [count]",
            ..Spec::NEW
        },
        run: Run::Keyed(pop::lpop),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "rpop",
            arity: -2,
            flags: WRITE | FAST,
            keys: &[KeySpec::one(1, RW | ACCESS | DELETE)],
            group: "list",
            complexity: "O(N) where N is the number of elements returned",
            summary: "Returns and removes the last elements of a list. Deletes the list if the last element was popped.",
            syntax: "key [count]",
            ..Spec::NEW
        },
        run: Run::Keyed(pop::rpop),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "lmpop",
            arity: -4,
            flags: WRITE | MOVABLE_KEYS,
            keys: &[KeySpec::counted(1, RW | ACCESS | DELETE)],
            group: "list",
            since: "7.0.0",
            complexity: "O(N+M) where N is the number of provided keys and M is the number of elements returned.",
            summary: "Returns multiple elements from a list after removing them. Deletes the list if the last element was popped.",
            syntax: "numkeys key [key ...] <LEFT | RIGHT> [COUNT count]",
            ..Spec::NEW
        },
        run: Run::Keyed(pop::lmpop),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "llen",
            arity: 2,
            flags: READONLY | FAST,
            keys: &[KeySpec::one(1, RO)],
            group: "list",
            summary: "Returns the length of a list.",
            syntax: "key",
            ..Spec::NEW
        },
        run: Run::Keyed(read::llen),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "lindex",
            arity: 3,
            flags: READONLY,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            group: "list",
            complexity: "O(N) where N is the number of elements to traverse to get to the element at index. This makes asking for the first or the last element of the list O(1).",
            summary: "Returns an element from a list by its index.",
            syntax: "key index",
            ..Spec::NEW
        },
        run: Run::Keyed(read::lindex),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "lrange",
            arity: 4,
            flags: READONLY,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            group: "list",
            complexity: "O(S+N) where S is the distance of start offset from HEAD for small lists, from nearest end (HEAD or TAIL) for large lists; and N is the number of elements in the specified range.",
            summary: "Returns a range of elements from a list.",
            syntax: "key start stop",
            ..Spec::NEW
        },
        run: Run::Keyed(read::lrange),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "lpos",
            arity: -3,
            flags: READONLY,
            keys: &[KeySpec::one(1, RO | ACCESS)],
            group: "list",
            since: "6.0.6",
            complexity: "O(N) where N is the number of elements in the list, for the average case. When searching for elements near the head or the tail of the list, or when the MAXLEN option is provided, the command may run in constant time.",
            summary: "Returns the index of matching elements in a list.",
            syntax: "key element [RANK rank] [COUNT num-matches] [MAXLEN len]",
            ..Spec::NEW
        },
        run: Run::Keyed(read::lpos),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "lset",
            arity: 4,
            flags: WRITE | DENYOOM,
            keys: &[KeySpec::one(1, RW | UPDATE)],
            group: "list",
            complexity: "O(N) where N is the length of the list. Setting either the first or the last element of the list is O(1).",
            summary: "Sets the value of an element in a list by its index.",
            syntax: "key index element",
            ..Spec::NEW
        },
        run: Run::Keyed(change::lset),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "linsert",
            arity: 5,
            flags: WRITE | DENYOOM,
            keys: &[KeySpec::one(1, RW | INSERT)],
            group: "list",
            since: "2.2.0",
            complexity: "O(N) where N is the number of elements to traverse before seeing the value pivot. This means that inserting somewhere on the left end on the list (head) can be considered O(1) and inserting somewhere on the right end (tail) is O(N).",
            summary: "Inserts an element before or after another element in a list.",
            syntax: "key <BEFORE | AFTER> pivot element",
            ..Spec::NEW
        },
        run: Run::Keyed(change::linsert),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "lrem",
            arity: 4,
            flags: WRITE,
            keys: &[KeySpec::one(1, RW | DELETE)],
            group: "list",
            complexity: "O(N+M) where N is the length of the list and M is the number of elements removed.",
            summary: "Removes elements from a list. Deletes the list if the last element was removed.",
            syntax: "key count element",
            ..Spec::NEW
        },
        run: Run::Keyed(change::lrem),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "ltrim",
            arity: 4,
            flags: WRITE,
            keys: &[KeySpec::one(1, RW | DELETE)],
            group: "list",
            complexity: "O(N) where N is the number of elements to be removed by the operation.",
            summary: "Removes elements from both ends a list. Deletes the list if all elements were trimmed.",
            syntax: "key start stop",
            ..Spec::NEW
        },
        run: Run::Keyed(change::ltrim),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "lmove",
            arity: 5,
            flags: WRITE | DENYOOM,
            keys: &[KeySpec::one(1, RW | ACCESS | DELETE), KeySpec::one(2, RW | INSERT)],
            group: "list",
            since: "6.2.0",
            summary: "Returns an element after popping it from one list and pushing it to another. Deletes the list if the last element was moved.",
            syntax: "source destination <LEFT | RIGHT> <LEFT | RIGHT>",
            ..Spec::NEW
        },
        run: Run::Keyed(transfer::lmove),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "lmovem",
            arity: -5,
            flags: WRITE | DENYOOM,
            keys: &[KeySpec::one(1, RW | ACCESS | DELETE), KeySpec::one(2, RW | INSERT)],
            group: "list",
            since: "8.10.0",
            complexity: "O(N) where N is the number of elements moved.",
            summary: "Moves up to (or exactly) a number of elements from one list to another and returns them. Deletes the source list if it becomes empty.",
            syntax: "source destination <LEFT | RIGHT> <LEFT | RIGHT> [<COUNT count | EXACTLY exactly> <OBO | BULK>]",
            ..Spec::NEW
        },
        run: Run::Keyed(transfer::lmovem),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "rpoplpush",
            arity: 3,
            flags: WRITE | DENYOOM,
            keys: &[KeySpec::one(1, RW | ACCESS | DELETE), KeySpec::one(2, RW | INSERT)],
            group: "list",
            since: "1.2.0",
            summary: "Returns the last element of a list after removing and pushing it to another list. Deletes the list if the last element was popped.",
            syntax: "source destination",
            ..Spec::NEW
        },
        run: Run::Keyed(transfer::rpoplpush),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "blpop",
            arity: -3,
            flags: WRITE | BLOCKING,
            keys: &[KeySpec::range(1, -2, 1, RW | ACCESS | DELETE)],
            group: "list",
            since: "2.0.0",
            complexity: "O(N) where N is the number of provided keys.",
            summary: "Removes and returns the first element in a list. Blocks until an element is available otherwise. Deletes the list if the last element was popped.",
            syntax: "key [key ...] timeout",
            ..Spec::NEW
        },
        run: Run::Keyed(blocking::blpop),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "brpop",
            arity: -3,
            flags: WRITE | BLOCKING,
            keys: &[KeySpec::range(1, -2, 1, RW | ACCESS | DELETE)],
            group: "list",
            since: "2.0.0",
            complexity: "O(N) where N is the number of provided keys.",
            summary: "Removes and returns the last element in a list. Blocks until an element is available otherwise. Deletes the list if the last element was popped.",
            syntax: "key [key ...] timeout",
            ..Spec::NEW
        },
        run: Run::Keyed(blocking::brpop),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "blmpop",
            arity: -5,
            flags: WRITE | BLOCKING | MOVABLE_KEYS,
            keys: &[KeySpec::counted(2, RW | ACCESS | DELETE)],
            group: "list",
            since: "7.0.0",
            complexity: "O(N+M) where N is the number of provided keys and M is the number of elements returned.",
            summary: "Pops the first element from one of multiple lists. Blocks until an element is available otherwise. Deletes the list if the last element was popped.",
            syntax: "timeout numkeys key [key ...] <LEFT | RIGHT> [COUNT count]",
            ..Spec::NEW
        },
        run: Run::Keyed(blocking::blmpop),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "blmove",
            arity: 6,
            flags: WRITE | DENYOOM | BLOCKING,
            keys: &[KeySpec::one(1, RW | ACCESS | DELETE), KeySpec::one(2, RW | INSERT)],
            group: "list",
            since: "6.2.0",
            summary: "Pops an element from a list, pushes it to another list and returns it. Blocks until an element is available otherwise. Deletes the list if the last element was moved.",
            syntax: "source destination <LEFT | RIGHT> <LEFT | RIGHT> timeout",
            ..Spec::NEW
        },
        run: Run::Keyed(blocking::blmove),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "blmovem",
            arity: -6,
            flags: WRITE | DENYOOM | BLOCKING,
            keys: &[KeySpec::one(1, RW | ACCESS | DELETE), KeySpec::one(2, RW | INSERT)],
            group: "list",
            since: "8.10.0",
            complexity: "O(N) where N is the number of elements moved.",
            summary: "Moves up to (or exactly) a number of elements from one list to another and returns them. Blocks until the elements are available otherwise. Deletes the source list if it becomes empty.",
            syntax: "source destination <LEFT | RIGHT> <LEFT | RIGHT> timeout [<COUNT count | EXACTLY exactly> <OBO | BULK>]",
            ..Spec::NEW
        },
        run: Run::Keyed(blocking::blmovem),
        subcommands: &[],
    },
    Row {
        spec: Spec {
            name: "brpoplpush",
            arity: 4,
            flags: WRITE | DENYOOM | BLOCKING,
            keys: &[KeySpec::one(1, RW | ACCESS | DELETE), KeySpec::one(2, RW | INSERT)],
            group: "list",
            since: "2.2.0",
            summary: "Pops an element from a list, pushes it to another list and returns it. Block until an element is available otherwise. Deletes the list if the last element was popped.",
            syntax: "source destination timeout",
            ..Spec::NEW
        },
        run: Run::Keyed(blocking::brpoplpush),
        subcommands: &[],
    },
];
