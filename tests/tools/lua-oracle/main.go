// lua-oracle runs health scripts with the interpreter that Argo CD has, set up as Argo CD does it: the judge for tests of
// plugins/health-lua.
//
// The first line of stdin is a JSON list of scripts, {"text", "openLibs"}; every other line is a case, {"script": index, "object"}.
// For each case a line goes to stdout: {"status", "message"}, {"empty": true} or {"error"}.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	lua "github.com/yuin/gopher-lua"
	luajson "layeh.com/gopher-json"
)

type script struct {
	Text     string `json:"text"`
	OpenLibs bool   `json:"openLibs"`
}

type question struct {
	Script int `json:"script"`
	Object any `json:"object"`
}

type answer struct {
	Status  string `json:"status,omitempty"`
	Message string `json:"message,omitempty"`
	Empty   bool   `json:"empty,omitempty"`
	Error   string `json:"error,omitempty"`
}

// The fields that Argo CD reads from what a script returns.
type health struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

func main() {
	time.Local = time.UTC
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	// What a script prints must not get between the answers.
	out := bufio.NewWriter(os.Stdout)
	os.Stdout = os.Stderr
	defer out.Flush()
	var scripts []script
	if !lines.Scan() {
		log.Fatal("no scripts")
	}
	if err := json.Unmarshal(lines.Bytes(), &scripts); err != nil {
		log.Fatalf("scripts: %v", err)
	}
	for lines.Scan() {
		var q question
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			log.Fatalf("case: %v", err)
		}
		line, err := json.Marshal(judge(scripts[q.Script], q.Object))
		if err != nil {
			log.Fatal(err)
		}
		out.Write(line)
		out.WriteByte('\n')
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
}

func judge(s script, object any) answer {
	l := lua.NewState(lua.Options{SkipOpenLibs: !s.OpenLibs})
	defer l.Close()
	open(l, lua.LoadLibName, lua.OpenPackage)
	open(l, lua.BaseLibName, lua.OpenBase)
	open(l, lua.TabLibName, lua.OpenTable)
	open(l, lua.OsLibName, func(l *lua.LState) int {
		l.Push(l.RegisterModule(lua.TabLibName, clock))
		return 1
	})
	l.PreloadModule(lua.OsLibName, func(l *lua.LState) int {
		l.Push(l.SetFuncs(l.NewTable(), clock))
		return 1
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	l.SetContext(ctx)
	l.SetGlobal("actionParams", l.NewTable())
	l.SetGlobal("obj", luajson.DecodeValue(l, object))
	if err := l.DoString(s.Text); err != nil {
		var failed *lua.ApiError
		if errors.As(err, &failed) && failed.Type == lua.ApiErrorRun {
			failed.StackTrace = ""
		}
		return answer{Error: err.Error()}
	}
	return read(l.Get(-1))
}

func read(returned lua.LValue) answer {
	switch returned.Type() {
	case lua.LTNil:
		return answer{Empty: true}
	case lua.LTTable:
	default:
		return answer{Error: fmt.Sprintf("expect table output from Lua script, not %s", returned.Type())}
	}
	text, err := luajson.Encode(returned)
	if err != nil {
		return answer{Error: err.Error()}
	}
	var found health
	if err := json.Unmarshal(text, &found); err != nil {
		// Any value of another type counts as an empty result.
		var typed *json.UnmarshalTypeError
		if errors.As(err, &typed) {
			return answer{Empty: true}
		}
		return answer{Error: err.Error()}
	}
	switch found.Status {
	case "Healthy", "Progressing", "Degraded", "Suspended", "Missing", "Unknown":
		return answer{Status: found.Status, Message: found.Message}
	}
	return answer{Status: "Unknown", Message: "Lua returned an invalid health status"}
}

func open(l *lua.LState, name string, loader lua.LGFunction) {
	if err := l.CallByParam(lua.P{Fn: l.NewFunction(loader), Protect: true}, lua.LString(name)); err != nil {
		log.Fatalf("library %s: %v", name, err)
	}
}

// The part of the os library that Argo CD leaves to scripts.
var clock = map[string]lua.LGFunction{"time": luaTime, "date": luaDate}

func luaTime(l *lua.LState) int {
	if l.GetTop() == 0 {
		l.Push(lua.LNumber(time.Now().Unix()))
		return 1
	}
	fields := l.CheckTable(1)
	field := func(name string, otherwise int) int {
		if number, ok := fields.RawGetString(name).(lua.LNumber); ok {
			return int(number)
		}
		return otherwise
	}
	at := time.Date(field("year", -1), time.Month(field("month", -1)), field("day", -1),
		field("hour", 12), field("min", 0), field("sec", 0), 0, time.Local)
	l.Push(lua.LNumber(at.Unix()))
	return 1
}

func luaDate(l *lua.LState) int {
	at := time.Now()
	pattern := strings.TrimLeft(l.OptString(1, "%c"), "!")
	if l.GetTop() > 1 {
		at = time.Unix(l.CheckInt64(2), 0)
	}
	if !strings.HasPrefix(pattern, "*t") {
		l.Push(lua.LString(written(at, pattern)))
		return 1
	}
	parts := l.NewTable()
	for name, value := range map[string]int{
		"year": at.Year(), "month": int(at.Month()), "day": at.Day(), "hour": at.Hour(), "min": at.Minute(),
		"sec": at.Second(), "wday": int(at.Weekday()) + 1, "yday": 0,
	} {
		parts.RawSetString(name, lua.LNumber(value))
	}
	parts.RawSetString("isdst", lua.LFalse)
	l.Push(parts)
	return 1
}

// What the letters stand for, as Go writes it.
var layouts = map[byte]string{
	'a': "mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'c': "02 Jan 06 15:04 MST", 'd': "02", 'F': "2006-01-02",
	'H': "15", 'I': "03", 'm': "01", 'M': "04", 'p': "PM", 'P': "pm", 'S': "05", 'x': "15/04/05", 'X': "15:04:05",
	'y': "06", 'Y': "2006", 'z': "-0700", 'Z': "MST",
}

func written(at time.Time, pattern string) string {
	var text strings.Builder
	for i := 0; i < len(pattern); i++ {
		if pattern[i] != '%' || i+1 == len(pattern) {
			text.WriteByte(pattern[i])
			continue
		}
		i++
		switch layout, known := layouts[pattern[i]]; {
		case known:
			text.WriteString(at.Format(layout))
		case pattern[i] == 'w':
			text.WriteString(strconv.Itoa(int(at.Weekday())))
		case pattern[i] == '%':
			text.WriteByte('%')
		default:
			text.WriteString(pattern[i-1 : i+1])
		}
	}
	return text.String()
}
