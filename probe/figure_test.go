package probe

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestFigure: one number, and everything that is not one, with why.
func TestFigure(t *testing.T) {
	answer := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/query" || r.FormValue("query") != "sum(load)" {
			t.Errorf("asked %s", r.URL)
		}
		fmt.Fprint(w, answer)
	}))
	defer s.Close()
	vector := func(rows string) string {
		return `{"status":"success","data":{"resultType":"vector","result":[` + rows + `]}}`
	}
	for _, c := range []struct {
		answer string
		want   float64
		no     string
	}{
		{vector(`{"metric":{},"value":[1,"12.5"]}`), 12.5, ""},
		{`{"status":"success","data":{"resultType":"scalar","result":[1,"7"]}}`, 7, ""},
		{vector(""), 0, "the query gives no data"},
		{vector(`{"metric":{"a":"1"},"value":[1,"1"]},{"metric":{"a":"2"},"value":[1,"2"]}`), 0, "the query gives 2 series; aggregate it to one"},
		{vector(`{"metric":{},"value":[1,"NaN"]}`), 0, "the query gives NaN"},
		{vector(`{"metric":{},"value":[1,"+Inf"]}`), 0, "the query gives +Inf"},
		{`{"status":"error","error":"parse error"}`, 0, "status 200: parse error"},
		{`hello`, 0, "the answer is not that of Prometheus"},
	} {
		answer = c.answer
		got, err := Figure(t.Context(), s.URL, "sum(load)")
		if got != c.want || (c.no == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.no) {
			t.Errorf("%s: %v, %v", c.answer, got, err)
		}
	}
	s.Close()
	if _, err := Figure(t.Context(), s.URL, "sum(load)"); err == nil || !strings.HasPrefix(err.Error(), "cannot ask Prometheus: ") {
		t.Error(err)
	}
}
