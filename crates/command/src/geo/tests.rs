use crate::testing::Bench;

fn sicily() -> Bench {
    let mut bench = Bench::new();
    assert_eq!(bench.words("geoadd s 13.361389 38.115556 Palermo 15.087269 37.502669 Catania"), ":2\r\n");
    bench
}

/// A reply of bulk strings and arrays in short.
fn short(reply: &str) -> String {
    let words = reply.split("\r\n").filter(|word| !word.starts_with('$') && !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn positions_and_distances() {
    let mut bench = sicily();
    assert_eq!(bench.words("geodist s Palermo Catania"), "$11\r\n166274.1516\r\n");
    assert_eq!(bench.words("geodist s Palermo Catania km"), "$8\r\n166.2742\r\n");
    assert_eq!(bench.words("geodist s Palermo Catania MI"), "$8\r\n103.3182\r\n");
    assert_eq!(bench.words("geodist s Palermo Palermo"), "$6\r\n0.0000\r\n");
    assert_eq!(bench.words("geodist s Palermo none"), "$-1\r\n");
    assert_eq!(bench.words("geodist none a b"), "$-1\r\n");
    assert_eq!(bench.words("geodist s a b yards"), "-ERR unsupported unit provided. please use M, KM, FT, MI\r\n");
    assert_eq!(bench.words("geodist s a b m m"), "-ERR syntax error\r\n");
    assert_eq!(short(&bench.words("geohash s Palermo Catania")), "*2 sqc8b49rny0 sqdtr74hyu0");
    assert_eq!(bench.words("geohash s none"), "*1\r\n$-1\r\n");
    assert_eq!(bench.words("geopos s none"), "*1\r\n*-1\r\n");
    assert_eq!(short(&bench.words("geopos s Palermo")), "*1 *2 13.361389338970184 38.1155563954963");
    assert_eq!(bench.words("geopos s"), "*0\r\n");
    assert_eq!(bench.words("zscore s Palermo"), "$16\r\n3479099956230698\r\n");
    bench.words("set t x");
    for line in ["geopos t a", "geohash t a", "geodist t a b", "geoadd t 1 1 a", "georadius t 1 1 1 km"] {
        assert_eq!(bench.words(line), "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n");
    }
}

#[test]
fn adding() {
    let mut bench = sicily();
    assert_eq!(bench.words("geoadd s nx 1 1 Palermo"), ":0\r\n");
    assert_eq!(bench.words("geoadd s ch xx 1 1 Palermo 2 2 other"), ":1\r\n");
    assert_eq!(bench.words("geoadd none xx 1 1 a"), ":0\r\n");
    assert_eq!(bench.words("exists none"), ":0\r\n");
    for line in ["geoadd s xx nx 1 1 a", "geoadd s 1 1 a 2", "geoadd s nx ch ch"] {
        assert_eq!(bench.words(line), "-ERR syntax error\r\n", "{line}");
    }
    assert_eq!(bench.words("geoadd s 1 x a"), "-ERR value is not a valid float\r\n");
    let outside = "-ERR invalid longitude,latitude pair 181.000000,0.500000\r\n";
    assert_eq!(bench.words("geoadd s 1 1 a 181 0.5 b"), outside);
    assert_eq!(bench.words("zcard s"), ":2\r\n");
    assert_eq!(bench.notified(), ["zadd s", "zadd s"]);
}

#[test]
fn searches() {
    let mut bench = sicily();
    bench.words("geoadd s 12.758489 38.788135 edge1 17.241510 38.788135 edge2");
    let found = bench.words("geosearch s fromlonlat 15 37 byradius 200 km asc");
    assert_eq!(short(&found), "*2 Catania Palermo");
    let found = bench.words("geosearch s fromlonlat 15 37 bybox 400 400 km asc withdist");
    assert_eq!(short(&found), "*4 *2 Catania 56.4413 *2 Palermo 190.4424 *2 edge2 279.7403 *2 edge1 279.7405");
    let found = bench.words("georadius s 15 37 200 km withhash withcoord desc count 1");
    assert_eq!(short(&found), "*1 *3 Palermo :3479099956230698 *2 13.361389338970184 38.1155563954963");
    let found = bench.words("georadiusbymember s Palermo 200 km count 1");
    assert_eq!(short(&found), "*1 Palermo");
    let found = bench.words("geosearch s frommember Palermo byradius 1000 km count 3 any desc");
    assert_eq!(short(&found), "*3 Catania edge1 Palermo");
    assert_eq!(bench.words("geosearch none frommember a byradius 1 m"), "*0\r\n");
    let unknown = "-ERR could not decode requested zset member\r\n";
    assert_eq!(bench.words("geosearch s frommember none byradius 1 m"), unknown);
    assert_eq!(bench.words("georadiusbymember s none 1 m"), unknown);
    assert_eq!(bench.words("georadiusbymember none none x y"), "*0\r\n");
}

#[test]
fn storing() {
    let mut bench = sicily();
    assert_eq!(bench.words("geosearchstore d s fromlonlat 15 37 byradius 200 km"), ":2\r\n");
    assert_eq!(bench.words("zscore d Palermo"), "$16\r\n3479099956230698\r\n");
    assert_eq!(bench.words("georadius s 15 37 200 km store x storedist d"), ":2\r\n");
    assert_eq!(bench.words("georadius s 15 37 200 km store x store y"), ":2\r\n");
    assert_eq!(bench.words("exists x y"), ":1\r\n");
    assert_eq!(short(&bench.words("zrange d 0 0 withscores")), "*2 Catania 56.4412578701582");
    assert_eq!(bench.words("georadiusbymember s Catania 1 m store d"), ":1\r\n");
    assert_eq!(bench.words("geosearchstore d s fromlonlat 0 0 byradius 1 m"), ":0\r\n");
    assert_eq!(bench.words("exists d"), ":0\r\n");
    assert_eq!(bench.words("geosearchstore y none frommember a byradius 1 m"), ":0\r\n");
    assert_eq!(
        bench.notified(),
        [
            "zadd s",
            "geosearchstore d",
            "overwritten d",
            "georadiusstore d",
            "georadiusstore y",
            "overwritten d",
            "georadiusstore d",
            "del d",
            "del y"
        ]
    );
    assert_eq!(
        bench.words("geosearchstore d s frommember Catania byradius 1 m withdist"),
        "-ERR GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options\r\n"
    );
    assert_eq!(
        bench.words("georadius s 1 1 1 km store d withhash"),
        "-ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options\r\n"
    );
    assert_eq!(bench.words("georadius_ro s 1 1 1 km store d"), "-ERR syntax error\r\n");
    assert_eq!(bench.words("geosearch s fromlonlat 1 1 byradius 1 km storedist"), "-ERR syntax error\r\n");
}

#[test]
fn members_in_a_polygon() {
    let mut bench = sicily();
    let around_catania = "bypolygon 4 14 37 16 37 16 38 14 38";
    assert_eq!(bench.words(&format!("geosearch s {around_catania}")), "*1\r\n$7\r\nCatania\r\n");
    assert_eq!(bench.words(&format!("geosearch none {around_catania}")), "*0\r\n");
    assert_eq!(bench.words("geosearch s bypolygon 3 12 37 16 37 16 38 asc count 5"), "*1\r\n$7\r\nCatania\r\n");
    assert!(bench.words("geosearch s bypolygon 4 12 37 16 37 16 39 12 39 asc").starts_with("*2\r\n"));
    // From the middle of the corners, in metres.
    assert_eq!(short(&bench.words(&format!("geosearch s {around_catania} withdist"))), "*1 *2 Catania 7702.1996");
    assert_eq!(bench.words(&format!("geosearchstore d s {around_catania}")), ":1\r\n");
    assert_eq!(bench.replayed().words("zcard d"), ":1\r\n");
}

#[test]
fn errors() {
    let mut bench = sicily();
    let cases = [
        ("byradius 1 m asc desc count 1", "exactly one of FROMMEMBER or FROMLONLAT can be specified for geosearch"),
        ("fromlonlat 1 1 asc asc", "exactly one of BYRADIUS and BYBOX can be specified for geosearch"),
        ("fromlonlat 1 1 frommember Palermo byradius 1 m", "syntax error"),
        ("fromlonlat 1 1 byradius 1 m bybox 1 1 m", "syntax error"),
        ("fromlonlat 1 1 byradius 1 m any", "the ANY argument requires COUNT argument"),
        ("fromlonlat 1 1 byradius 1 m count 0", "COUNT must be > 0"),
        ("fromlonlat 1 1 byradius 1 m count x", "value is not an integer or out of range"),
        ("fromlonlat 1 1 byradius -1 m", "radius cannot be negative"),
        ("fromlonlat 1 1 byradius x m", "need numeric radius"),
        ("fromlonlat 1 1 bybox x 1 m", "need numeric width"),
        ("fromlonlat 1 1 bybox 1 x m", "need numeric height"),
        ("fromlonlat 1 1 bybox 1 -1 m", "height or width cannot be negative"),
        ("fromlonlat 1 91 byradius 1 m", "invalid longitude,latitude pair 1.000000,91.000000"),
        ("bypolygon 2 1 1 2 2", "GEOSEARCH BYPOLYGON must have at least 3 vertices"),
        ("bypolygon 3 1 1 2 2 3", "GEOSEARCH BYPOLYGON must have at least 3 vertices"),
        ("bypolygon x 1 1 2 2 3 3", "invalid number of vertices"),
        ("bypolygon 3 1 1 2 2 3 x", "value is not a valid float"),
        ("bypolygon 3 1 1 2 2 3 91", "invalid longitude,latitude pair 3.000000,91.000000"),
        ("bypolygon 3 1 1 2 2 3 3 fromlonlat 1 1", "syntax error"),
        ("fromlonlat 1 1 bypolygon 3 1 1 2 2 3 3", "syntax error"),
        ("bypolygon 3 1 1 2 2 3 3 byradius 1 km", "syntax error"),
        ("fromlonlat 1 1 byradius 1 parsec", "unsupported unit provided. please use M, KM, FT, MI"),
    ];
    for (options, error) in cases {
        assert_eq!(bench.words(&format!("geosearch s {options}")), format!("-ERR {error}\r\n"), "{options}");
    }
}
