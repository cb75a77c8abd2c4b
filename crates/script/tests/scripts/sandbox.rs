//! Scripts must not change the state that the next one sees, delay a worker, or take all memory.

use crate::host::Host;
use script::Limits;

const READ_ONLY: &str = "Attempt to modify a readonly table";

#[test]
fn nothing_can_be_written_to() {
    let mut host = Host::deprecated();
    for body in [
        "a = 10",
        "_G.a = 10",
        "_G = {}",
        "redis = 1",
        "redis.call = 1",
        "cjson.encode = 1",
        "cmsgpack.pack = 1",
        "bit.band = 1",
        "struct.pack = 1",
        "string.format = 1",
        "table.insert = 1",
        "math.random = 1",
        "os.clock = 1",
        "coroutine.wrap = 1",
        "setmetatable(_G, {})",
        "setmetatable(redis, {})",
        "getmetatable(_G).__index = {}",
        "getmetatable(getmetatable(_G)).__index = {}",
        "getmetatable('').__index = {}",
        "getmetatable('').__index.format = 1",
        "getmetatable('').__len = 1",
        "rawset(_G, 'a', 1)",
        "rawset(redis, 'call', 1)",
        "rawset(getmetatable(_G), '__index', 1)",
        "table.insert(redis, 1)",
        "table.sort(cjson)",
        "table.remove(cjson)",
        "getfenv().a = 1",
        "getfenv(0).a = 1",
        "getfenv(redis.call).a = 1",
        "for _, t in pairs(_G) do if type(t) == 'table' then t.x = 1 end end",
        "local _, t = next(_G) while type(t) ~= 'table' do _, t = next(_G, _) end t.x = 1",
    ] {
        let reply = host.eval(body);
        assert!(reply.contains(READ_ONLY), "{body}: {reply}");
    }
    // Only Lua's own assignments have a line.
    assert!(host.eval("rawset(redis, 'call', 1)").starts_with(&format!("-ERR {READ_ONLY} script:")));
    assert!(host.eval("redis.call = 1").starts_with(&format!("-ERR user_script:1: {READ_ONLY} script:")));
    // Nothing has changed.
    assert!(host.eval("return a").contains("nonexistent global variable 'a'"));
    assert_eq!(host.eval("return type(redis.call) .. ('%d'):format(7)"), "$9\r\nfunction7\r\n");
}

#[test]
fn nothing_else_is_there() {
    let mut host = Host::new();
    for name in
        ["print", "dofile", "loadfile", "io", "require", "module", "package", "debug", "KEYS_", "__redis__err__handler"]
    {
        assert!(host.eval(&format!("return {name}")).contains("nonexistent global variable"), "{name}");
    }
    for body in [
        "os.execute('true')",
        "os.exit()",
        "os.getenv('HOME')",
        "os.remove('x')",
        "os.time()",
        "redis.register_function('a', pairs)",
    ] {
        assert!(host.eval(body).contains("attempt to call field"), "{body}: {}", host.eval(body));
    }
    assert!(
        host.eval("return loadstring(string.dump(function() return 1 end))()").contains("attempt to call a nil value")
    );
    assert!(host.eval("return load(function() return nil end)()") == "$-1\r\n");
    assert_eq!(host.eval("return loadstring('return 1 + 1')()"), ":2\r\n");
    assert_eq!(
        host.eval("local t = {'return ', '40 + 2'} local i = 0 return load(function() i = i + 1 return t[i] end)()"),
        ":42\r\n"
    );
}

#[test]
fn what_redis_has_taken_away_is_there_only_where_it_is_asked_for() {
    let (mut host, mut deprecated) = (Host::new(), Host::deprecated());
    for name in ["getfenv", "setfenv", "newproxy"] {
        let reply = host.eval(&format!("return type({name})"));
        assert!(reply.contains(&format!("nonexistent global variable '{name}'")), "{reply}");
        assert_eq!(deprecated.eval(&format!("return type({name})")), "$8\r\nfunction\r\n");
    }
    assert_eq!(deprecated.eval("return type(newproxy())"), "$8\r\nuserdata\r\n");
}

#[test]
fn proxies_have_metatables_as_in_lua() {
    let mut host = Host::deprecated();
    for (body, reply) in [
        ("return getmetatable(newproxy()) == nil and getmetatable(newproxy(false)) == nil", ":1\r\n"),
        ("local p = newproxy(true) getmetatable(p).__len = function() return 7 end return #p", ":7\r\n"),
        (
            "local p = newproxy(true) local m = getmetatable(p) m.__index = {a = 5} \
             m.__call = function(_, n) return n * 2 end return p.a + p(4) + rawget(m, '__index').a",
            ":18\r\n",
        ),
        ("local p = newproxy(true) getmetatable(p).__len = function() return 3 end return #newproxy(p)", ":3\r\n"),
        (
            "local p = newproxy(true) local q = newproxy(p) return p ~= q and getmetatable(p) == getmetatable(q)",
            ":1\r\n",
        ),
        ("return getmetatable(newproxy(true)) ~= getmetatable(newproxy(true))", ":1\r\n"),
        ("local p = newproxy(true) getmetatable(p).__metatable = 'x' return getmetatable(p)", "$1\r\nx\r\n"),
    ] {
        assert_eq!(host.eval(body), reply, "{body}");
    }
    for body in ["newproxy(1)", "newproxy(newproxy())", "newproxy(cjson.null)"] {
        assert!(host.eval(body).contains("boolean or proxy expected"), "{body}");
    }
    assert!(host.eval("getmetatable(newproxy(true))[nil] = 1").contains("index is nil"));
    assert!(host.eval("rawset(getmetatable(newproxy(true)), '__gc', error)").contains("readonly table"));
    assert!(host.eval("setmetatable(getmetatable(newproxy(true)), {})").starts_with('-'));
}

#[test]
fn a_finalizer_of_a_proxy_never_runs() {
    let mut host = Host::deprecated();
    let endless = "local m = getmetatable(newproxy(true)) m.__gc = function() while true do end end \
                   m = nil collectgarbage() collectgarbage() return 1";
    assert_eq!(host.eval(endless), ":1\r\n");
}

#[test]
fn what_is_read_only_can_be_read() {
    let mut host = Host::new();
    assert_eq!(host.eval("local n = 0 for k, v in pairs(redis) do n = n + 1 end return n > 10"), ":1\r\n");
    assert_eq!(host.eval("return rawget(redis, 'call') == redis.call"), ":1\r\n");
    assert_eq!(host.eval("return rawget(_G, 'nosuch') == nil"), ":1\r\n");
    assert_eq!(host.eval("return next({}) == nil and next({5}) == 1"), ":1\r\n");
    assert_eq!(host.eval("return _G"), "*0\r\n");
    assert_eq!(
        host.eval("local t = setmetatable({}, {__index = function(_, k) return k end}) return t.x"),
        "$1\r\nx\r\n"
    );
    assert!(host.eval("setmetatable(setmetatable({}, {__metatable = 1}), {})").contains("protected metatable"));
}

#[test]
fn environments_do_not_outlive_a_script() {
    let mut host = Host::deprecated();
    let body = "local ok = pcall(function() return redis.call('ping') end) setfenv(1, {}) return ok";
    assert_eq!(host.eval(body), ":1\r\n");
    assert_eq!(host.eval(body), ":1\r\n");
    host.eval("setfenv(0, {})");
    assert_eq!(host.eval("return loadstring('return type(redis)')()"), "$5\r\ntable\r\n");
}

/// Scripts that never end.
const ENDLESS: &[&str] = &[
    "while true do end",
    "while true do pcall(function() while true do end end) end",
    "while true do pcall(redis.pcall, 'ping') end",
    "while true do redis.call('ping') end",
    "local function f() pcall(f) pcall(f) return f() end f()",
    "xpcall(function() while true do end end, function() while true do end end) while true do end",
    "while true do xpcall(function() error('x') end, function() while true do end end) end",
    "coroutine.wrap(function() while true do end end)()",
    "while true do coroutine.wrap(function() while true do coroutine.yield() end end)() end",
    "while true do local co = coroutine.create(function() while true do end end) coroutine.resume(co) end",
    "return (string.rep('x', 1000000):gsub('.', function() while true do end end))",
    "return ('x'):rep(30):find(('x?'):rep(30) .. ('x'):rep(30))",
    "local s = ('a'):rep(100000) return s:find('.-.-.-.-.-b')",
    "local s = ('a'):rep(100000) for w in s:gmatch('.-.-.-.-b') do end",
    "local s = ('a'):rep(100000) return (s:gsub('.-.-.-.-b', ''))",
    "local t = {} for i = 1, 5000 do t[i] = i end while true do table.sort(t) end",
    "while true do table.sort({1,2,3}, function() while true do end end) end",
    "while true do collectgarbage() end",
    "while true do cjson.decode('[1,2,3]') end",
    "local t = {} for i = 1, 100000 do t[i] = 'xxxxxxxxxxxxxxxxxxx' end while true do cjson.encode(t) cmsgpack.pack(t) end",
    "while true do string.rep('x', 100000) end",
    "string.rep('', 1e15) while true do end",
    "load(function() while true do end end)",
    "load(function() return ' ' end) while true do end",
    "local t = setmetatable({}, {__index = function(t, k) while true do end end}) return t.x",
    "return setmetatable({}, {__tostring = function() while true do end end}) .. tostring(setmetatable({}, {__tostring = function() while true do end end}))",
    "while true do pcall(string.rep) end",
    "local t = {} for i = 1, 200000 do t[i] = i end while true do table.insert(t, table.remove(t, 1)) end",
    "local t = {} for i = 1, 200000 do t[i] = i end while true do table.insert(t, 1, table.remove(t)) end",
    "local s, n = ('x'):rep(1000000), 0 while true do n = n + 1 local longer = s .. n end",
    "local s, n = ('x'):rep(1000000), 0 while true do n = n + 1 (n .. s):upper() end",
    "local s = ('x'):rep(1000000) s:gsub('.', pcall) while true do end",
];

#[test]
fn every_script_can_be_killed() {
    let mut host = Host::new();
    host.patience = 20;
    for body in ENDLESS {
        let reply = host.eval(body);
        let ended =
            reply.contains("Script killed by user with SCRIPT KILL...") || reply.contains("attempt to concatenate");
        assert!(ended, "{body}: {reply}");
        assert!(host.slices <= host.patience + 2, "{body}: nothing is asked after a script was stopped");
        // The machine is as good as new.
        assert_eq!(host.eval("local n = 0 for i = 1, 1000 do n = n + 1 end return n"), ":1000\r\n", "{body}");
        assert_eq!(host.slices, 0);
    }
}

#[test]
fn large_work_ends_a_slice_early() {
    // Few instructions, each of which moves or copies much.
    for body in [
        "local t = {} for i = 1, 200000 do t[i] = i end for i = 1, 100 do table.remove(t, 1) end",
        "local t = {} for i = 1, 200000 do t[i] = i end for i = 1, 100 do table.insert(t, 1, i) end",
        "local s = ('x'):rep(1000000) for i = 1, 100 do local longer = s .. i end",
        "local s = ('x'):rep(1000000) for i = 1, 100 do (s .. i):reverse() end",
    ] {
        let mut host = Host::new();
        host.eval(body);
        assert!(host.slices >= 50, "{body}: {}", host.slices);
    }
}

#[test]
fn ranges_are_checked_where_lua_does_not() {
    let mut host = Host::new();
    for range in
        ["-2147483647, 2147483647", "-1, 2147483647", "0, 2147483646", "-2147483648", "1, 8001", "1, 4294967295"]
    {
        let reply = host.eval(&format!("return select('#', unpack({{}}, {range}))"));
        assert!(reply.contains("too many results") || reply == ":0\r\n", "{range}: {reply}");
    }
    assert_eq!(host.eval("return {unpack({1, 2, 3}, 2)}"), "*2\r\n:2\r\n:3\r\n");
    assert_eq!(host.eval("return {unpack({1, 2, 3}, '1', '2')}"), "*2\r\n:1\r\n:2\r\n");
    assert_eq!(host.eval("return {unpack({1, 2, 3}, nil, nil)}"), "*3\r\n:1\r\n:2\r\n:3\r\n");
    assert_eq!(host.eval("return select('#', unpack({}, 2, 1))"), ":0\r\n");
    assert!(host.eval("return unpack('x')").contains("table expected"));
    assert!(host.eval("table.insert({}, -2147483648, 'x')").contains("position out of bounds"));
    assert_eq!(
        host.eval("local t = {2, 3} table.insert(t, 1, 1) table.insert(t, 4) return t"),
        "*4\r\n:1\r\n:2\r\n:3\r\n:4\r\n"
    );
    assert_eq!(host.eval("local t = {1} table.insert(t, 3, 3) return {t[1], t[3]}"), "*2\r\n:1\r\n:3\r\n");
    assert_eq!(
        host.eval("local t = {1, 2, 3} return {table.remove(t, 1), table.remove(t), #t}"),
        "*3\r\n:1\r\n:3\r\n:1\r\n"
    );
    assert!(host.eval("table.insert(redis, 1, 1)").contains("readonly"));
}

#[test]
fn a_script_that_is_given_up_ends() {
    use script::{Input, Machine, Running, Source, Step};
    let machine = Machine::new(Limits::default()).unwrap();
    let source = Source::parse(b"while true do pcall(redis.call, 'ping') end").unwrap();
    let none = std::iter::empty;
    let mut running = Running::eval(machine, &source, none(), none(), 0).unwrap();
    assert!(matches!(running.step(Input::Start), Step::Call { .. }));
    drop(running);
    // The script has not even begun.
    let machine = Machine::new(Limits::default()).unwrap();
    let running = Running::eval(machine, &source, none(), none(), 0).unwrap();
    let mut out = Vec::new();
    running.finish(resp::Protocol::Resp2, &mut out);
    assert!(out.starts_with(b"-ERR the script was given up"));
    let machine = Machine::new(Limits::default()).unwrap();
    drop(Running::eval(machine, &source, none(), none(), 0).unwrap());
}

#[test]
fn memory_is_bounded() {
    let limits = Limits { memory: 8 << 20, ..Limits::default() };
    let mut host = Host::with(limits);
    for body in [
        "local t = {} while true do t[#t + 1] = {} end",
        "local s = 'x' while true do s = s .. s end",
        "return string.rep('x', 1e9)",
        "return string.rep('x', 1e18)",
        "local t = {} for i = 1, 1000 do t[i] = ('x'):rep(100000) .. i end return 1",
        "local s = ('x'):rep(1000000) local t = {} for i = 1, 1000 do t[i] = s end return #table.concat(t)",
        "local s = ('x'):rep(1000000) local t = {} for i = 1, 1000 do t[i] = s end return cjson.encode(t)",
        "local s = ('x'):rep(1000000) local t = {} for i = 1, 1000 do t[i] = s end return cmsgpack.pack(t)",
        "return (('x'):rep(1000000):gsub('x', ('y'):rep(1000)))",
        "return struct.pack(('c0'):rep(100), unpack((function() local t = {} local s = ('x'):rep(1000000) for i = 1, 100 do t[i] = s end return t end)()))",
    ] {
        let reply = host.eval(body);
        let ended = ["not enough memory", "string too large", "overflow"].iter().any(|text| reply.contains(text));
        assert!(ended, "{body}: {}", &reply[..reply.len().min(200)]);
        let machine = host.machine.as_ref().unwrap();
        assert!(machine.memory() < limits.memory, "{body}: {}", machine.memory());
        assert_eq!(host.eval("return #('x'):rep(1000)"), ":1000\r\n");
    }
    // Garbage alone does not fill the limit.
    assert_eq!(host.eval("for i = 1, 2000 do local s = ('x'):rep(100000) .. i end return 1"), ":1\r\n");
}

#[test]
fn deep_things() {
    let mut host = Host::new();
    for body in [
        "local f f = function() return coroutine.wrap(f)() end return f()",
        "local f f = function(s) return (('x'):gsub('.', f)) end return f('x')",
        "local t = {} for i = 1, 100000 do t = {t} end return #cmsgpack.pack(t)",
        "cjson.encode_max_depth(1000000) local t = {} for i = 1, 100000 do t = {t} end return cjson.encode(t)",
        "cjson.decode_max_depth(1000000) return cjson.decode(('['):rep(100000))",
        "return cmsgpack.unpack(('\\145'):rep(100000))",
        "return cmsgpack.unpack(('\\193'):rep(100000))",
        "return unpack({}, 1, 1e8)",
        "return ('x'):find(('('):rep(40))",
        "return ('x'):rep(5000):find(('x?'):rep(5000))",
        "return loadstring(('('):rep(100000))()",
        "return ('x'):rep(100, 1)",
        "local t = setmetatable({}, {}) getmetatable(t).__index = t return t.x",
        "return cmsgpack.unpack(('\\1'):rep(100000))",
    ] {
        host.eval(body);
        assert_eq!(host.eval("return 1"), ":1\r\n", "{body}");
    }
}
