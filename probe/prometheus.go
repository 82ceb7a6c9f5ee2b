package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/steadycast/steadycast"
)

// prometheusProbe asks one instant query and compares. Prometheus is an
// instrument and not the service: whatever goes wrong with asking is unknown.
type prometheusProbe struct {
	target string
	url    string
	set    Prometheus
	round  *http.Transport
	word   *word
}

const (
	maxPrometheusBody = 1 << 20
	maxSeries         = 10000
)

func (p *Prometheus) withDefaults() *Prometheus {
	if p.Empty == "" {
		p.Empty = "unknown"
	}
	return p
}

func prometheusProblems(c Check) []Problem {
	p := c.Prometheus
	ps := urlProblems(c.Target)
	add := func(path, format string, args ...any) { ps = append(ps, problem(path, format, args...)) }
	if strings.TrimSpace(p.Query) == "" {
		add("prometheus.query", "missing")
	}
	if p.Above == nil && p.Below == nil {
		add("prometheus.above", "give above, below or both; up is while the value is between them")
	}
	for _, x := range []struct {
		path string
		v    *float64
	}{{"prometheus.above", p.Above}, {"prometheus.below", p.Below}} {
		if x.v != nil && math.IsNaN(*x.v) {
			add(x.path, "NaN compares with nothing")
		}
	}
	if p.Above != nil && p.Below != nil && *p.Above >= *p.Below {
		add("prometheus.above", "%v is not under below, %v, so no value could pass", *p.Above, *p.Below)
	}
	if !slices.Contains([]string{"unknown", "up", "down"}, p.Empty) {
		add("prometheus.empty", "%q is not an outcome; unknown, up or down", p.Empty)
	}
	return ps
}

func compilePrometheus(c Check, env Env) (body, error) {
	u, err := url.Parse(c.Target)
	if err != nil {
		return nil, err
	}
	u = u.JoinPath("api", "v1", "query")
	u.RawQuery = url.Values{"query": {c.Prometheus.Query}}.Encode()
	d := newDialer(c, env)
	return &prometheusProbe{c.Target, u.String(), *c.Prometheus, &http.Transport{
		DialContext: d.dial, DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHeaderBytes,
	}, env.word}, nil
}

func (p *prometheusProbe) probe(ctx context.Context) steadycast.Result {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, nil)
	if err != nil {
		return unknown("%v", err)
	}
	req.Header.Set("User-Agent", "steadycast")
	resp, err := p.round.RoundTrip(req)
	if err != nil {
		return unknown("cannot ask Prometheus: %s", failed(err, p.target, "asking").Reason)
	}
	defer resp.Body.Close()
	text, err := readBounded(resp.Body, maxPrometheusBody+1)
	if err != nil {
		return unknown("cannot ask Prometheus: %s", failed(err, p.target, "reading").Reason)
	}
	if len(text) > maxPrometheusBody {
		return unknown("Prometheus answered with over %d bytes; aggregate the query", maxPrometheusBody)
	}
	values, err := instantVector(text)
	if err != nil {
		return unknown("Prometheus at %s, status %d: %v", p.target, resp.StatusCode, err)
	}
	return p.judge(values)
}

type series struct {
	labels string
	value  float64
}

// judge needs every series within the bounds.
func (p *prometheusProbe) judge(values []series) steadycast.Result {
	if len(values) == 0 {
		r := unknown("the query gives no data")
		switch p.set.Empty {
		case "up":
			r = up("no data, which is taken as up")
		case "down":
			r = p.word.of(soft("the query gives no data, which is taken as down"))
		}
		return r
	}
	undefined := false
	for _, s := range values {
		switch {
		case math.IsNaN(s.value):
			undefined = true
		case p.set.Above != nil && s.value <= *p.set.Above:
			return p.word.of(soft("%s is %v, not above %v", s.labels, s.value, *p.set.Above))
		case p.set.Below != nil && s.value >= *p.set.Below:
			return p.word.of(soft("%s is %v, not below %v", s.labels, s.value, *p.set.Below))
		}
	}
	if undefined {
		return unknown("the value is not a number (NaN)")
	}
	return up(fmt.Sprintf("%s is %v, within bounds", values[0].labels, values[0].value))
}

// instantVector reads the answer of /api/v1/query: a vector or a scalar.
func instantVector(text []byte) ([]series, error) {
	var answer struct {
		Status string `json:"status"`
		Error  string `json:"error"`
		Data   struct {
			ResultType string          `json:"resultType"`
			Result     json.RawMessage `json:"result"`
		} `json:"data"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf("the answer is not that of Prometheus: %q", clip(string(text), 80))
	}
	if answer.Status != "success" {
		return nil, fmt.Errorf("%s", clip(answer.Error, 200))
	}
	switch answer.Data.ResultType {
	case "scalar":
		v, err := sample(answer.Data.Result)
		return []series{{"the value", v}}, err
	case "vector":
		var rows []struct {
			Metric map[string]string `json:"metric"`
			Value  json.RawMessage   `json:"value"`
		}
		if err := json.Unmarshal(answer.Data.Result, &rows); err != nil {
			return nil, err
		}
		if len(rows) > maxSeries {
			return nil, fmt.Errorf("%d series; aggregate the query", len(rows))
		}
		out := make([]series, len(rows))
		for i, r := range rows {
			v, err := sample(r.Value)
			if err != nil {
				return nil, err
			}
			out[i] = series{labelText(r.Metric), v}
		}
		return out, nil
	}
	return nil, fmt.Errorf("the query gives a %q; an instant vector or a scalar is wanted", clip(answer.Data.ResultType, 40))
}

// sample reads [time, "value"].
func sample(raw json.RawMessage) (float64, error) {
	var pair []json.RawMessage
	var text string
	if err := json.Unmarshal(raw, &pair); err != nil || len(pair) != 2 {
		return 0, fmt.Errorf("%q is not a sample", clip(string(raw), 80))
	}
	if err := json.Unmarshal(pair[1], &text); err != nil {
		return 0, fmt.Errorf("%q is not a sample", clip(string(raw), 80))
	}
	return strconv.ParseFloat(text, 64)
}

func labelText(m map[string]string) string {
	if len(m) == 0 {
		return "the value"
	}
	var parts []string
	for _, k := range sortedKeys(m) {
		if k != "__name__" {
			parts = append(parts, k+"="+m[k])
		}
	}
	return clip(m["__name__"]+"{"+strings.Join(parts, ",")+"}", 120)
}
