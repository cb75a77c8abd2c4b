//! Calls, replies, errors.

use crate::host::{Host, sha};
use resp::Protocol;

#[test]
fn values_as_replies() {
    let mut host = Host::new();
    for (body, expected) in [
        ("return 1", ":1\r\n"),
        ("return 3.99", ":3\r\n"),
        ("return -3.99", ":-3\r\n"),
        ("return 1/0", ":-9223372036854775808\r\n"),
        ("return 'hi'", "$2\r\nhi\r\n"),
        ("return true", ":1\r\n"),
        ("return false", "$-1\r\n"),
        ("return nil", "$-1\r\n"),
        ("return", "$-1\r\n"),
        ("return print", "-ERR"),
        ("return function() end", "$-1\r\n"),
        ("return {1,'a',{2}}", "*3\r\n:1\r\n$1\r\na\r\n*1\r\n:2\r\n"),
        ("return {1,nil,3}", "*1\r\n:1\r\n"),
        ("return {}", "*0\r\n"),
        ("return {ok='fi\\nne'}", "+fi ne\r\n"),
        ("return {err='My Err'}", "-My Err\r\n"),
        ("return {double=1.5}", "$3\r\n1.5\r\n"),
        ("return {big_number='123'}", "$3\r\n123\r\n"),
        ("return {verbatim_string={format='txt',string='hello'}}", "$5\r\nhello\r\n"),
        ("return {map={a=1}}", "*2\r\n$1\r\na\r\n:1\r\n"),
        ("return {map={[{5}]={6}}}", "*2\r\n*1\r\n:5\r\n*1\r\n:6\r\n"),
        ("return {set={a=true}}", "*1\r\n$1\r\na\r\n"),
        ("return redis.error_reply('bad thing')", "-bad thing\r\n"),
        ("return redis.error_reply('-bad thing')", "-bad thing\r\n"),
        ("return redis.error_reply('bad')", "-ERR bad\r\n"),
        ("return redis.error_reply()", "-ERR wrong number or type of arguments\r\n"),
        ("return redis.status_reply('FINE')", "+FINE\r\n"),
        ("return redis.sha1hex('')", "$40\r\nda39a3ee5e6b4b0d3255bfef95601890afd80709\r\n"),
        ("return redis.REDIS_VERSION_NUM", ":526336\r\n"),
        ("return redis.REDIS_VERSION", "$5\r\n8.8.0\r\n"),
        ("return #_G._VERSION", ":7\r\n"),
    ] {
        let reply = host.eval(body);
        if expected.len() > 4 || !expected.starts_with('-') {
            assert_eq!(reply, expected, "{body}");
        } else {
            assert!(reply.starts_with(expected), "{body}: {reply}");
        }
    }
    host.protocol = Protocol::Resp3;
    for (body, expected) in [
        ("return true", ":1\r\n"),
        ("return false", "_\r\n"),
        ("redis.setresp(3); return true", "#t\r\n"),
        ("redis.setresp(3); return false", "#f\r\n"),
        ("return {double=1.5}", ",1.5\r\n"),
        ("return {map={a=1}}", "%1\r\n$1\r\na\r\n:1\r\n"),
        ("return {set={a=true}}", "~1\r\n$1\r\na\r\n"),
        ("return {verbatim_string={format='txt',string='hello'}}", "=9\r\ntxt:hello\r\n"),
    ] {
        assert_eq!(host.eval(body), expected, "{body}");
    }
}

#[test]
fn calls() {
    let mut host = Host::new();
    assert_eq!(host.eval_with(b"return redis.call('set', KEYS[1], ARGV[1])", &[b"k"], &[b"v"]), b"+OK\r\n");
    assert_eq!(host.eval("return redis.call('get', 'k')"), "$1\r\nv\r\n");
    assert_eq!(host.eval("return redis.call('get', 'none') == false"), ":1\r\n");
    assert_eq!(host.eval("return redis.call('set', 'k', 'w').ok"), "$2\r\nOK\r\n");
    assert_eq!(
        host.eval("return redis.call('echo', 1, 1.5, -0.0, 1e20, 12345678901234567, 'x')"),
        "*6\r\n$1\r\n1\r\n$3\r\n1.5\r\n$1\r\n0\r\n$5\r\n1e+20\r\n$17\r\n12345678901234568\r\n$1\r\nx\r\n"
    );
    for (raw, check) in [
        ("_", "v == nil"),
        ("#t", "v == true"),
        (",1.5", "v.double == 1.5"),
        ("(123", "v.big_number == '123'"),
        ("=5\\r\\ntxt:a", "v.verbatim_string.string == 'a' and v.verbatim_string.format == 'txt'"),
        ("%1\\r\\n+a\\r\\n:1", "v.map[next(v.map)] == 1"),
        ("~1\\r\\n:7", "v.set[7] == true"),
        ("|1\\r\\n:1\\r\\n:2\\r\\n:3", "v == 3"),
        ("*-1", "v == false"),
    ] {
        let body = format!("redis.setresp(3) local v = redis.call('raw', '{raw}\\r\\n'); return {check}");
        assert_eq!(host.eval(&body), ":1\r\n", "{body}");
    }
}

#[test]
fn errors() {
    let mut host = Host::new();
    host.keys.insert(b"k".into(), b"x".into());
    let body = "return redis.call('incr', 'k')";
    let place = |body: &str, line: i32| format!(" script: {}, on @user_script:{line}.\r\n", sha(body));
    let not_integer = "-ERR value is not an integer or out of range";
    assert_eq!(host.eval(body), not_integer.to_owned() + &place(body, 1));
    assert_eq!(host.eval("return redis.pcall('incr', 'k')"), not_integer.to_owned() + "\r\n");
    assert_eq!(
        host.eval("return redis.pcall('incr', 'k').err"),
        "$47\r\nERR value is not an integer or out of range\r\n".replace("47", "43")
    );
    assert_eq!(
        host.eval("local ok, e = pcall(redis.call, 'incr', 'k') return {tostring(ok), e}"),
        "*2\r\n$5\r\nfalse\r\n$43\r\nERR value is not an integer or out of range\r\n"
    );
    let body = "\n\nerror('oops')";
    assert_eq!(host.eval(body), "-ERR user_script:3: oops".to_owned() + &place(body, 3));
    let body = "error({err='MY oops'})";
    assert_eq!(host.eval(body), "-MY oops".to_owned() + &place(body, 1));
    let body = "error({})";
    assert_eq!(host.eval(body), "-ERR unknown error".to_owned() + &place(body, 1));
    let body = "local function f() return redis.call('nosuch') end\nlocal ok = f()\nreturn ok";
    assert_eq!(host.eval(body), "-ERR Unknown Redis command called from script".to_owned() + &place(body, 1));
    let body = "redis.call()";
    assert_eq!(
        host.eval(body),
        "-ERR Please specify at least one argument for this redis lib call".to_owned() + &place(body, 1)
    );
    let body = "redis.call('get', {})";
    assert_eq!(
        host.eval(body),
        "-ERR Lua redis lib command arguments must be strings or integers".to_owned() + &place(body, 1)
    );
    let body = "return {err=cjson.decode('[}')}";
    assert_eq!(
        host.eval(body),
        "-ERR user_script:1: Expected value but found T_OBJ_END at character 2".to_owned() + &place(body, 1)
    );
    assert_eq!(
        host.eval("return nosuch("),
        "-ERR Error compiling script (new function): user_script:1: unexpected symbol near '<eof>'\r\n"
    );
    let body = "#!lua\nreturn nosuch";
    assert_eq!(
        host.eval(body),
        "-ERR user_script:2: Script attempted to access nonexistent global variable 'nosuch'".to_owned()
            + &place(body, 2)
    );
    let body = "local a = {}; local b = {a}; a[1] = b; return a";
    assert!(host.eval(body).contains("-ERR reached lua stack limit\r\n"));
    let body = "local function f() return f() + 1 end return f()";
    assert!(host.eval(body).contains("stack overflow"), "{}", host.eval(body));
}

#[test]
fn logs_and_checks() {
    let mut host = Host::new();
    host.eval("redis.log(redis.LOG_WARNING, 'a', 1, 'b')");
    assert_eq!(host.log, ["Warning a 1 b"]);
    assert!(host.eval("redis.log(10, 'a')").starts_with("-ERR Invalid log level."));
    assert_eq!(host.eval("return redis.acl_check_cmd('get', 'k')"), ":1\r\n");
    assert_eq!(host.eval("return redis.acl_check_cmd('set', 'k', 'v')"), "$-1\r\n");
    assert!(
        host.eval("return redis.acl_check_cmd('nosuch')")
            .starts_with("-ERR Invalid command passed to redis.acl_check_cmd()")
    );
}

#[test]
fn random_numbers_are_those_of_redis() {
    let mut host = Host::new();
    let body = "local t = {} for i = 1, 3 do t[i] = math.random(1000000) end return t";
    let first = host.eval(body);
    assert_eq!(host.eval(body), first, "each script begins anew");
    assert_eq!(first, "*3\r\n:170829\r\n:749902\r\n:96372\r\n");
    assert!(host.eval("return math.random(0)").contains("bad argument #1 to 'random' (interval is empty)"));
}
