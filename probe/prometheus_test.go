package probe

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/steadycast/steadycast/internal/loopback"
)

func TestPrometheus(t *testing.T) {
	vector := func(rows ...string) string {
		return `{"status":"success","data":{"resultType":"vector","result":[` + strings.Join(rows, ",") + `]}}`
	}
	row := func(labels, v string) string {
		return fmt.Sprintf(`{"metric":{%s},"value":[1700000000.1,"%s"]}`, labels, v)
	}
	for _, c := range []struct {
		body string
		set  Prometheus
		want string
	}{
		{vector(row(``, "0.5")), Prometheus{Above: new(0.1), Below: new(0.9)}, "up"},
		{vector(row(``, "0.95")), Prometheus{Below: new(0.9)}, "down soft: the value is 0.95, not below 0.9"},
		{vector(row(``, "0.9")), Prometheus{Below: new(0.9)}, "down soft: not below"},
		{vector(row(``, "0.1")), Prometheus{Above: new(0.1)}, "down soft: not above"},
		{vector(row(`"__name__":"lag","db":"a"`, "1"), row(`"__name__":"lag","db":"b"`, "30")), Prometheus{Below: new(10.0)}, "down soft: lag{db=b} is 30, not below 10"},
		{vector(row(``, "NaN")), Prometheus{Below: new(10.0)}, "unknown: not a number"},
		{vector(row(``, "NaN"), row(``, "11")), Prometheus{Below: new(10.0)}, "down soft: 11"},
		{vector(row(``, "+Inf")), Prometheus{Below: new(10.0)}, "down soft: +Inf"},
		{vector(), Prometheus{Below: new(10.0)}, "unknown: gives no data"},
		{vector(), Prometheus{Below: new(10.0), Empty: "up"}, "up"},
		{vector(), Prometheus{Below: new(10.0), Empty: "down"}, "down soft: gives no data"},
		{`{"status":"success","data":{"resultType":"scalar","result":[1,"3"]}}`, Prometheus{Below: new(10.0)}, "up"},
		{`{"status":"success","data":{"resultType":"matrix","result":[]}}`, Prometheus{Below: new(10.0)}, `unknown: gives a "matrix"`},
		{`{"status":"error","errorType":"bad_data","error":"parse error"}`, Prometheus{Below: new(10.0)}, "unknown: parse error"},
		{`<html>`, Prometheus{Below: new(10.0)}, "unknown: not that of Prometheus"},
		{`{}`, Prometheus{Below: new(10.0)}, "unknown"},
		{vector(`{"value":[1]}`), Prometheus{Below: new(10.0)}, "unknown: not a sample"},
		{vector(`{"value":[1,2]}`), Prometheus{Below: new(10.0)}, "unknown: not a sample"},
		{vector(row(``, "many")), Prometheus{Below: new(10.0)}, "unknown"},
		{vector(strings.Repeat(row(``, "1")+",", 20000) + row(``, "1")), Prometheus{Below: new(10.0)}, "unknown"},
		{vector(strings.Repeat("x", 2<<20)), Prometheus{Below: new(10.0)}, "unknown: with over 1048576 bytes"},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/prom/api/v1/query" || r.URL.Query().Get("query") != `max(lag{a="b"}) by (c)` {
				t.Errorf("asked %s", r.URL)
			}
			io.WriteString(w, c.body)
		}))
		c.set.Query = `max(lag{a="b"}) by (c)`
		expect(t, run(t, Check{Kind: "prometheus", Target: srv.URL + "/prom/", Timeout: 5 * time.Second, Prometheus: &c.set}), c.want)
		srv.Close()
	}
	// The instrument is not the service.
	set := &Prometheus{Query: "x", Above: new(0.5)}
	for _, c := range []struct{ addr, want string }{
		{loopback.Own(t).String(), "unknown: cannot ask Prometheus: connection refused"},
		{server(t, silent), "unknown: cannot ask Prometheus: timeout"},
		{server(t, reset), "unknown: cannot ask Prometheus: connection reset"},
	} {
		expect(t, run(t, Check{Kind: "prometheus", Target: "http://" + c.addr, Timeout: patient(c.want, 200*time.Millisecond), Prometheus: set}), c.want)
	}
}
