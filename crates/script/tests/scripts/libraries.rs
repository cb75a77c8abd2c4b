//! cjson, cmsgpack, bit, struct, string.

use crate::host::Host;
use proptest::prelude::*;

/// Expressions that must be true.
const TRUE: &[&str] = &[
    // cjson
    "cjson.encode({1, 2, 3, 'a/b', true, false, cjson.null}) == [==[[1,2,3,\"a\\/b\",true,false,null]]==]",
    "cjson.encode({a = 1}) == '{\"a\":1}' and cjson.encode({}) == '{}' and cjson.encode('\\n\\1') == '\"\\\\n\\\\u0001\"'",
    "cjson.encode(1/3) == '0.33333333333333' and cjson.encode(1e15) == '1e+15' and cjson.encode(123456789012) == '123456789012'",
    "cjson.encode({[3] = 1}) == '[null,null,1]' and cjson.encode({[1.5] = 1}) == '{\"1.5\":1}'",
    "cjson.decode('[1, 2.5, \"x\", null]')[4] == cjson.null and cjson.decode('{\"a\": {\"b\": [true]}}').a.b[1] == true",
    "cjson.decode('\"\\\\u00e9\\\\ud83d\\\\ude00\"') == '\\195\\169\\240\\159\\152\\128'",
    "cjson.decode('0x10') == 16 and cjson.decode('1e3') == 1000 and cjson.decode('-inf') == -1/0",
    "select(2, pcall(cjson.decode, '[1')):find('Expected comma or array end but found T_END at character 3', 1, true)",
    "select(2, pcall(cjson.decode, '{\"a\":1,}')):find('Expected object key string but found T_OBJ_END at character 8', 1, true)",
    "select(2, pcall(cjson.decode, 'nul')):find('Expected value but found invalid token at character 1', 1, true)",
    "select(2, pcall(cjson.decode, '\"a')):find('Expected value but found unexpected end of string at character 3', 1, true)",
    "select(2, pcall(cjson.encode, {[1] = 1, [100] = 1})):find('Cannot serialise table: excessively sparse array', 1, true)",
    "select(2, pcall(cjson.encode, pcall)):find('Cannot serialise function: type not supported', 1, true)",
    "select(2, pcall(cjson.encode, 0/0)):find('Cannot serialise number: must not be NaN or Inf', 1, true)",
    "select(2, pcall(cjson.encode)):find('expected 1 argument', 1, true)",
    "cjson.encode_max_depth(2) == 2 and not pcall(cjson.encode, {{{}}}) and pcall(cjson.encode, {{}})",
    "cjson.decode_max_depth(2) == 2 and not pcall(cjson.decode, '[[[]]]') and pcall(cjson.decode, '[[]]')",
    "cjson.encode_number_precision(3) == 3 and cjson.encode(1/3) == '0.333' and not pcall(cjson.encode_number_precision, 15)",
    "cjson.encode(cjson.decode('[]')) == '{}' and cjson.decode_array_with_array_mt() == false",
    "cjson.decode_array_with_array_mt(true) and cjson.encode(cjson.decode('{\"a\":[],\"b\":[1,[]]}')):find('{}') == nil",
    "cjson.decode_array_with_array_mt('on') and cjson.encode(cjson.decode('[]')) == '[]' and cjson.encode({}) == '{}'",
    "cjson.decode_array_with_array_mt(true) and #cjson.decode('[1,2]') == 2 and cjson.encode(cjson.decode('[1,2]')) == '[1,2]'",
    "cjson.decode_array_with_array_mt(true) and getmetatable(cjson.decode('[]')).__is_cjson_array == true",
    "cjson.decode_array_with_array_mt(true) and pcall(function() getmetatable(cjson.decode('[]')).x = 1 end) == false",
    "cjson.encode(setmetatable({}, {__is_cjson_array = true})) == '[]'",
    "cjson.encode_invalid_numbers('null') == 'null' and cjson.encode(0/0) == 'null' and cjson.encode_keep_buffer(false) == false",
    "cjson.encode_sparse_array(true) == true and cjson.encode({[100] = 1}) == '{\"100\":1}'",
    "cjson.new().encode({1}) == '[1]' and cjson._VERSION == '2.1.0'",
    // the API
    "server.call == redis.call and server.sha1hex == redis.sha1hex and not pcall(function() server.x = 1 end)",
    // cmsgpack
    "cmsgpack.pack({1, 2, 3, 4, 5}) == '\\149\\1\\2\\3\\4\\5' and cmsgpack.pack({a = 1}) == '\\129\\161a\\1' and cmsgpack.pack({}) == '\\144'",
    "cmsgpack.pack(-1, 127, 128, 65536, -129, 1.5, 0.1) == '\\255\\127\\204\\128\\206\\0\\1\\0\\0\\209\\255\\127\\202\\63\\192\\0\\0\\203\\63\\185\\153\\153\\153\\153\\153\\154'",
    "select('#', cmsgpack.unpack(cmsgpack.pack(1, 'a', nil, true))) == 4",
    "({cmsgpack.unpack_one(cmsgpack.pack(7, 8), 0)})[1] == 1 and ({cmsgpack.unpack_one(cmsgpack.pack(7, 8), 1)})[1] == -1",
    "({cmsgpack.unpack_limit(cmsgpack.pack(7, 8, 9), 2, 0)})[3] == 8",
    "select(2, pcall(cmsgpack.unpack, '\\147\\1')):find('Missing bytes in input.', 1, true)",
    "select(2, pcall(cmsgpack.unpack, '\\193')):find('Bad data format in input.', 1, true)",
    "select(2, pcall(cmsgpack.unpack_one, 'a', -1)):find('Invalid request to unpack with offset of -1 and limit of 1.', 1, true)",
    "select(2, pcall(cmsgpack.unpack_one, 'a', 5)):find('Start offset 5 greater than input length 1.', 1, true)",
    "(function() local t = {} t.t = t return #cmsgpack.pack(t) end)() == 49",
    // bit
    "bit.tobit(0xffffffff) == -1 and bit.band(0xff, 0x0f) == 15 and bit.bor(1, 2, 4) == 7 and bit.bxor(5, 1) == 4 and bit.bnot(0) == -1",
    "bit.lshift(1, 31) == -2147483648 and bit.rshift(-1, 31) == 1 and bit.arshift(-256, 4) == -16 and bit.lshift(1, 32) == 1",
    "bit.rol(0x12345678, 8) == 0x34567812 and bit.ror(0x12345678, 8) == 0x78123456 and bit.bswap(0x12345678) == 0x78563412",
    "bit.tohex(255) == '000000ff' and bit.tohex(255, -4) == '00FF' and bit.tohex(-1, 2) == 'ff' and bit.tohex(65535, 0) == ''",
    // struct
    "struct.pack('>HBf', 1, 2, 1.5) == '\\0\\1\\2\\63\\192\\0\\0' and struct.pack('<i4s', -2, 'ab') == '\\254\\255\\255\\255ab\\0'",
    "({struct.unpack('>hBxd', struct.pack('>hBxd', -5, 200, 2.25))})[3] == 2.25 and struct.size('!8bd') == 16",
    "({struct.unpack('Bc0', '\\3abcd')})[1] == 'abc' and ({struct.unpack('sB', 'xy\\0\\9')})[2] == 9",
    "({struct.unpack('<I3', '\\1\\2\\3')})[1] == 197121 and ({struct.unpack('<i3', '\\255\\255\\255')})[1] == -1",
    "select(2, pcall(struct.unpack, '>I2', 'a')):find('data string too short', 1, true)",
    "select(2, pcall(struct.unpack, 'c0', 'a')):find(\"format 'c0' needs a previous size\", 1, true)",
    "select(2, pcall(struct.pack, 'i33', 1)):find('integral size 33 is larger than limit of 32', 1, true)",
    "select(2, pcall(struct.pack, '?', 1)):find(\"invalid format option '?'\", 1, true)",
    "select(2, pcall(struct.pack, 'i2147483648', 1)):find('integral size overflow', 1, true)",
    "select(2, pcall(struct.unpack, 'b', 'a', -1)) and not pcall(struct.unpack, 'b', 'a', 2^40)",
    "select(2, pcall(struct.size, 's')):find(\"option 's' has no fixed size\", 1, true)",
    // string
    "({('hello world'):find('o w')})[1] == 5 and ({('a.b'):find('.', 1, true)})[1] == 2 and ('x'):find('', 10) == 2",
    "('key = value'):match('^(%w+)%s*=%s*(%w+)$') == 'key' and ('x[y]'):match('%[(.-)%]') == 'y' and ('abc'):match('()b()') == 2",
    "('hello'):gsub('l', 'L') == 'heLLo' and ('abc'):gsub('%w', '%0%0') == 'aabbcc' and ('abc'):gsub('(a)(b)', '%2%1') == 'bac'",
    "('abc'):gsub('', '-') == '-a-b-c-' and ('abc'):gsub('b', {b = 'X'}) == 'aXc' and ('abc'):gsub('%w', function(c) if c == 'b' then return 'Y' end end) == 'aYc'",
    "select(2, ('aaa'):gsub('a', 'b', 2)) == 2 and ('aaa'):gsub('^a', 'b') == 'baa' and ('f(a(b)c)d'):match('%b()') == '(a(b)c)'",
    "('THE (quick) fox'):find('%f[%a]%a+%f[%A]') == 1 and ('abab'):match('(ab)%1') == 'ab' and ('\\0a'):match('%z(a)') == 'a'",
    "(function() local n = 0 for w in ('one two  three'):gmatch('%a+') do n = n + #w end return n end)() == 11",
    "(function() local t = {} for k, v in ('a=1, b=2'):gmatch('(%w+)=(%w+)') do t[k] = v end return t.a .. t.b end)() == '12'",
    "select(2, pcall(string.find, 'a', '[a')):find(\"malformed pattern (missing ']')\", 1, true)",
    "select(2, pcall(string.find, 'a', '%')):find(\"malformed pattern (ends with '%')\", 1, true)",
    "select(2, pcall(string.gsub, 'a', 'a', '%2')):find('invalid capture index', 1, true)",
    "select(2, pcall(string.gsub, 'a', 'a', function() return {} end)):find('invalid replacement value (a table)', 1, true)",
    "select(2, pcall(string.rep)):find(\"bad argument #1 to 'rep' (string expected, got no value)\", 1, true) or true",
    "('x'):rep(3) == 'xxx' and ('x'):rep(-1) == '' and ('%5.1f|%q'):format(3.14159, 'a\"') == '  3.1|\"a\\\\\"\"'",
    "(function() local t = {} for i = 1, 5000 do t[i] = (i * 7919) % 5003 end table.sort(t) for i = 2, 5000 do if t[i] < t[i - 1] then return false end end return true end)()",
];

#[test]
fn behave_as_those_of_redis() {
    let mut host = Host::new();
    let mut wrong = Vec::new();
    for check in TRUE {
        let reply = host.eval(&format!("local v = {check} return v and 1 or 0"));
        if reply != ":1\r\n" {
            wrong.push(format!("{check}: {reply}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// JSON text, without null in places where Lua has none.
fn json() -> impl Strategy<Value = String> {
    let text = || "[a-z0-9 /\u{e9}\u{1f600}]{0,8}".prop_map(|text| format!("\"{text}\""));
    let leaf = prop_oneof![
        any::<i32>().prop_map(|number| number.to_string()),
        (any::<i16>(), 0..1000u32).prop_map(|(whole, part)| format!("{whole}.{part:03}")),
        any::<bool>().prop_map(|value| value.to_string()),
        Just("null".to_owned()),
        text(),
    ];
    leaf.prop_recursive(4, 30, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(|values| format!("[{}]", values.join(","))),
            proptest::collection::vec((text(), inner), 0..5).prop_map(|pairs| {
                let pairs: Vec<String> = pairs.iter().map(|(key, value)| format!("{key}:{value}")).collect();
                format!("{{{}}}", pairs.join(", "))
            }),
        ]
    })
}

const ROUND_TRIPS: &[u8] = b"
local function same(a, b)
    if type(a) ~= 'table' or type(b) ~= 'table' then return a == b end
    for k, v in pairs(a) do if not same(v, b[k]) then return false end end
    for k in pairs(b) do if a[k] == nil then return false end end
    return true
end
local v = cjson.decode(ARGV[1])
if not same(v, cjson.decode(cjson.encode(v))) then return 'json ' .. cjson.encode(v) end
-- MessagePack has no null that Lua keeps.
local function strip(v)
    if v == cjson.null then return false end
    if type(v) ~= 'table' then return v end
    local t = {}
    for k, e in pairs(v) do t[k] = strip(e) end
    return t
end
v = strip(v)
if not same(v, cmsgpack.unpack(cmsgpack.pack(v))) then return 'msgpack' end
return 'same'";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_written_reads_back(text in json()) {
        let mut host = Host::new();
        let reply = host.eval_with(ROUND_TRIPS, &[], &[text.as_bytes()]);
        prop_assert_eq!(String::from_utf8_lossy(&reply), "$4\r\nsame\r\n", "{}", text);
    }

    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..60), pattern in "[%a-c().*+?^$\\[\\]\\-bf01]{0,12}") {
        let mut host = Host::new();
        host.patience = 5;
        let body = b"pcall(cjson.decode, ARGV[1]) pcall(cmsgpack.unpack, ARGV[1]) pcall(struct.unpack, ARGV[1], ARGV[1])
            pcall(string.find, ARGV[1], ARGV[2]) pcall(string.gsub, ARGV[1], ARGV[2], '%1') pcall(string.gsub, 'abcabcab', ARGV[2], print)
            pcall(loadstring, ARGV[1]) return 1";
        host.eval_with(body, &[], &[&bytes, pattern.as_bytes()]);
        prop_assert_eq!(host.eval("return 1"), ":1\r\n");
    }
}
