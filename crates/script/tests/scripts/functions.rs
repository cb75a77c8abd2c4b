//! Libraries and functions.

use crate::host::Host;
use script::{Library, Limits, Machine, Running, load_library};
use std::sync::Arc;

fn load(code: &str) -> Result<Library, String> {
    let limits = Limits { load_slices: 20, ..Limits::default() };
    let mut machine = Machine::new(limits).unwrap();
    load_library(&mut machine, code.as_bytes()).map_err(|error| error.text().to_owned())
}

fn call(host: &mut Host, library: &Arc<Library>, function: &str, keys: &[&[u8]], argv: &[&[u8]]) -> String {
    let machine = host.machine.take().unwrap();
    let running = Running::fcall(machine, library, function, keys.iter().copied(), argv.iter().copied(), 0);
    String::from_utf8(host.run(running.unwrap())).unwrap()
}

#[test]
fn functions_are_registered_and_called() {
    let library = load(
        "#!lua name=lib\n\
         local function set(keys, args) return redis.call('set', keys[1], args[1]) end\n\
         local calls = 0\n\
         redis.register_function('b', set)\n\
         redis.register_function{function_name='a', callback=function() calls = calls + 1 return calls end, \
         description='counts', flags={'no-writes', 'allow-stale'}}\n\
         redis.register_function('boom', function()\n error('boom') end)\n\
         redis.register_function('env', function() return {type(KEYS)} end)\n\
         redis.register_function('late', function() return redis.register_function end)\n\
         redis.register_function('bp', function() return redis.breakpoint == nil end)",
    )
    .unwrap();
    assert_eq!((library.name(), library.engine()), ("lib", "LUA"));
    let names: Vec<&str> = library.functions().iter().map(|function| &*function.name).collect();
    assert_eq!(names, ["a", "b", "boom", "bp", "env", "late"]);
    let a = library.function("a").unwrap();
    assert_eq!(a.description.as_deref(), Some(&b"counts"[..]));
    assert!(a.flags.names().eq(["no-writes", "allow-stale"]));
    let library = Arc::new(library);
    let mut host = Host::new();
    assert_eq!(call(&mut host, &library, "b", &[b"k"], &[b"v"]), "+OK\r\n");
    assert_eq!(host.keys[&b"k"[..]], b"v");
    assert_eq!(call(&mut host, &library, "a", &[], &[]), ":1\r\n");
    assert_eq!(call(&mut host, &library, "a", &[], &[]), ":2\r\n");
    assert_eq!(
        call(&mut host, &library, "boom", &[], &[]),
        "-ERR user_function:7: boom script: boom, on @user_function:7.\r\n"
    );
    assert!(call(&mut host, &library, "env", &[], &[]).contains("nonexistent global variable 'KEYS'"));
    assert_eq!(call(&mut host, &library, "late", &[], &[]), "$-1\r\n");
    assert_eq!(call(&mut host, &library, "bp", &[], &[]), ":1\r\n");
    // EVAL is not disturbed.
    assert_eq!(host.eval("return type(redis.breakpoint)"), "$8\r\nfunction\r\n");
    assert_eq!(call(&mut host, &library, "a", &[], &[]), ":3\r\n");
    let machine = host.machine.take().unwrap();
    let none = || std::iter::empty();
    let refused = Running::fcall(machine, &library, "nosuch", none(), none(), 0).unwrap_err();
    assert_eq!(refused.error.text(), "ERR Function not found");
}

#[test]
fn libraries_that_are_gone_are_forgotten() {
    let mut host = Host::new();
    for round in 0..50 {
        let code =
            format!("#!lua name=lib\nlocal big = string\nredis.register_function('f', function() return {round} end)");
        // `string` does not exist while a library is loaded.
        assert!(load(&code).unwrap_err().contains("nonexistent global variable 'string'"));
        let code = format!("#!lua name=lib\nredis.register_function('f', function() return {round} end)");
        let library = Arc::new(load(&code).unwrap());
        assert_eq!(call(&mut host, &library, "f", &[], &[]), format!(":{round}\r\n"));
    }
    host.machine.as_mut().unwrap().forget();
    assert!(host.machine.as_ref().unwrap().memory() < 1 << 20);
}

#[test]
fn refusals() {
    let names = "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long";
    let with = |body: &str| load(&format!("#!lua name=lib\n{body}")).unwrap_err();
    let registering = |text: &str| format!("ERR Error registering functions: {text}");
    for (code, error) in [
        ("return 1", "ERR Missing library metadata"),
        ("#!lua name=a", "ERR Invalid library metadata"),
        ("#!lua\n", "ERR Library name was not given"),
        ("#!lua name=a name=b\n", "ERR Invalid metadata value, name argument was given multiple times"),
        ("#!lua name=a foo=b\n", "ERR Invalid metadata value given: foo=b"),
        ("#!lua name=a.b\n", names),
        ("#!perl name=a\n", "ERR Engine 'perl' not found"),
        ("#!lua name=a\n", "ERR No functions registered"),
        ("#!lua name=a\nreturn (", "ERR Error compiling function: user_function:2: unexpected symbol near '<eof>'"),
    ] {
        assert_eq!(load(code).unwrap_err(), error, "{code}");
    }
    for (body, error) in [
        ("redis.register_function()", "ERR wrong number of arguments to redis.register_function"),
        (
            "redis.register_function(1)",
            "ERR calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments).",
        ),
        ("redis.register_function('a', 1)", "ERR second argument to redis.register_function must be a function"),
        ("redis.register_function({}, 1)", "ERR first argument to redis.register_function must be a string"),
        (
            "local f = function() end redis.register_function('a', f) redis.register_function('a', f)",
            "ERR Function already exists in the library",
        ),
        ("redis.register_function('a.b', function() end)", names),
        ("redis.register_function{function_name='a'}", "ERR redis.register_function must get a callback argument"),
        (
            "redis.register_function{callback=function() end}",
            "ERR redis.register_function must get a function name argument",
        ),
        ("redis.register_function{function_name='a', callback=function() end, flags={'x'}}", "ERR unknown flag given"),
        (
            "redis.register_function{function_name='a', callback=function() end, flags=1}",
            "ERR flags argument to redis.register_function must be a table representing function flags",
        ),
        ("redis.register_function{nosuch=1}", "ERR unknown argument given to redis.register_function"),
        ("redis.call('ping')", "ERR user_function:2: Script attempted to access nonexistent global variable 'call'"),
        ("a = 1", "ERR user_function:2: Attempt to modify a readonly table"),
        ("while true do end", "ERR FUNCTION LOAD timeout"),
    ] {
        assert_eq!(with(body), registering(error), "{body}");
    }
}
