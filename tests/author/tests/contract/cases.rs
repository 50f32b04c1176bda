/// Changes of `wit/`, each by a name, a file, a text in it and what it becomes.
const CASES: [(&str, &str, &str, &str); 5] = [
    ("a record gains a field", "types.wit", "details: json,", "details: json,\n    more: json,"),
    (
        "a variant gains a case",
        "source-provider.wit",
        "workspace-path(string),",
        "workspace-path(string),\n    tree(string),",
    ),
    ("an import loses a function", "config.wit", "get: func() -> json;", "fetch: func() -> json;"),
    ("an export gains a function", "health-check.wit", "assess: func", "kinds: func() -> json;\n  assess: func"),
    (
        "an import gains a function",
        "config.wit",
        "get: func() -> json;",
        "get: func() -> json;\n  keys: func() -> list<string>;",
    ),
];
