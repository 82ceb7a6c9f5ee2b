/*
 * The promises of siblings: when one node of a site of several may leave alone.
 *
 * Each node asks the others, and leaves on their word that they stay. The network
 * loses, duplicates and reorders: what was said once may arrive at any later time, any
 * number of times, or never. A node dies and heals, is wanted out by a person, restarts
 * and forgets, whenever it likes. Of time one thing is assumed: a promise outlasts the
 * belief in it, so it ends only when no request that got it is still open.
 *
 * Asserted at each leave:
 *
 *     at least MIN nodes go on announcing;
 *     no two leave by themselves on one promise.
 *
 * Sizes:    -DNODES -DMIN -DIDS (how many requests each node makes).
 * Mutants, each a rule that was left out, and each found:
 *   -DFORGET   a node that restarts may ask at once, whatever it promised before
 *   -DFREE     who has given its word gives it to a second one as well
 *   -DSILENT   a sibling that says nothing counts as one that stays
 */
#ifndef NODES
#define NODES 2
#endif
#ifndef MIN
#define MIN 1
#endif
#ifndef IDS
#define IDS 2
#endif

#define Silent  0
#define Nothing 1
#define Stays   2
#define Objects 3

#define AT(i, j) ((i) * NODES + (j))
#define SAID(i, j, k) (((i) * NODES + (j)) * (IDS + 1) + (k))

bool on[NODES] = 1;            /* it announces */
byte announcing = NODES;

byte id[NODES];                /* of its newest request */
bool open[NODES];              /* that one is under way */
bool wanted[NODES * (IDS + 1)];   /* by a person, of request k: NODES*k+i */
bool over[NODES * (IDS + 1)];     /* it will not leave on request k, and has said so */
byte word[NODES * NODES];      /* what j answered the open request of i */

byte asked[NODES * NODES];     /* the newest request of j that i heard of */
bool promised[NODES * NODES];  /* j may be about to leave, or left lately, as i knows */
bool bound[NODES];             /* it gave its word to stay */
bool young[NODES];             /* it restarted, and may have */
byte used[NODES];              /* how many left on that word by themselves */

bool sentStays[NODES * NODES * (IDS + 1)];   /* answers of i to request k of j */
bool sentOther[NODES * NODES * (IDS + 1)];
bool sentObjects[NODES * NODES * (IDS + 1)];

/* what a step works with; nothing of it outlives one */
hidden byte x, j, k, n, stays;
hidden byte no;

/* relies: a request that is open got this node's promise, or may yet: no. */
inline relies(ri) {
	no = false;
	for (x : 0 .. NODES - 1) {
		if
		:: x != ri && open[x] && sentStays[SAID(ri, x, id[x])] -> no = true
		:: else
		fi
	}
}

/* others counts in n whom node oi knows to leave, or to have left, but for oj and itself. */
inline others(oi, oj) {
	n = 0;
	for (x : 0 .. NODES - 1) {
		if
		:: x != oi && x != oj && promised[AT(oi, x)] -> n++
		:: else
		fi
	}
}

inline forget(fi_) {
	for (x : 0 .. NODES - 1) { word[AT(fi_, x)] = Silent }
}

inline drop(di) {
	if
	:: open[di] -> open[di] = false; forget(di); over[NODES * id[di] + di] = true
	:: else
	fi
}

/* hears: node i gets request k of node j. */
inline hears(hi, hj, hk) {
	if
	:: asked[AT(hi, hj)] > hk   /* it came late */
	:: else ->
		others(hi, hj);
		asked[AT(hi, hj)] = hk;
		if
#ifndef FREE
		:: n >= 1 && !wanted[NODES * hk + hj] -> sentObjects[SAID(hi, hj, hk)] = true
#endif
		:: else ->
			if
			:: open[hi] && hi < hj -> sentObjects[SAID(hi, hj, hk)] = true
			:: else ->
				if
				:: !wanted[NODES * hk + hj] -> promised[AT(hi, hj)] = true
				:: else
				fi;
				if
				:: on[hi] ->
					sentStays[SAID(hi, hj, hk)] = true;
					if
					:: !bound[hi] -> bound[hi] = true; used[hi] = 0
					:: else
					fi;
					drop(hi)
				:: true ->   /* it is not well, or has no room */
					sentOther[SAID(hi, hj, hk)] = true;
					drop(hi)
				fi
			fi
		fi
	fi
}

/* leaves: node i, if what it was told is enough. */
inline leaves(li) {
	others(li, li);
	stays = 0;
	no = n >= 1 && !wanted[NODES * id[li] + li];
	for (x : 0 .. NODES - 1) {
		if
		:: x != li && word[AT(li, x)] == Stays -> stays++
		:: x != li && word[AT(li, x)] == Objects -> no = true
#ifdef SILENT
		:: x != li && word[AT(li, x)] == Silent -> stays++
#endif
		:: else
		fi
	}
	if
	:: !no && stays >= MIN ->
		open[li] = false;
		on[li] = false;
		announcing--;
		assert(announcing >= MIN);
		for (x : 0 .. NODES - 1) {
			if
			:: x != li && word[AT(li, x)] == Stays && !wanted[NODES * id[li] + li] && bound[x] ->
				used[x]++;
				assert(used[x] <= 1)
			:: else
			fi
		}
		forget(li)
	:: else
	fi
}

proctype Node(byte i) {
end:	do
	/* it is well again, and nobody wants it out */
	:: atomic { !on[i] -> on[i] = true; announcing++ }
	/* it wants to leave: its instance died, or a person wants it out */
	:: atomic { on[i] && !open[i] && id[i] < IDS && !bound[i] && !young[i] ->
		if
		:: true
		:: wanted[NODES * (id[i] + 1) + i] = true
		fi;
		id[i]++;
		open[i] = true }
	/* a request of a sibling arrives, old or new */
	:: atomic { true ->
		select(j : 0 .. NODES - 1);
		select(k : 1 .. IDS);
		if
		:: j != i && k <= id[j] -> hears(i, j, k)
		:: else
		fi }
	/* an answer to the open request */
	:: atomic { open[i] -> select(j : 0 .. NODES - 1);
		if
		:: sentStays[SAID(j, i, id[i])] -> word[AT(i, j)] = Stays
		:: sentOther[SAID(j, i, id[i])] -> word[AT(i, j)] = Nothing
		:: sentObjects[SAID(j, i, id[i])] -> word[AT(i, j)] = Objects
		:: else
		fi }
	/* a sibling is heard to leave on no request up to that one */
	:: atomic { true ->
		select(j : 0 .. NODES - 1);
		select(k : 1 .. IDS);
		if
		:: over[NODES * k + j] && asked[AT(i, j)] <= k -> asked[AT(i, j)] = k; promised[AT(i, j)] = false
		:: else
		fi }
	:: atomic { open[i] -> leaves(i) }
	:: atomic { open[i] -> drop(i) }   /* it is over by time, or an objection came */
	/* time goes by: its promise ends, what it promised before a restart has, and the ten minutes */
	:: atomic { bound[i] || young[i] ->
		relies(i);
		if
		:: !no -> bound[i] = false; used[i] = 0; young[i] = false
		:: else
		fi }
	:: atomic { !bound[i] ->
		select(j : 0 .. NODES - 1);
		if
		:: !open[j] -> promised[AT(i, j)] = false
		:: else
		fi }
	/* it restarts, and forgets all but its number */
	:: atomic { true ->
		open[i] = false;
		forget(i);
		bound[i] = false;
		used[i] = 0;
#ifndef FORGET
		young[i] = true;
#endif
		for (x : 0 .. NODES - 1) { asked[AT(i, x)] = 0; promised[AT(i, x)] = false } }
	od
}

init {
	atomic {
		byte i;
		for (i : 0 .. NODES - 1) { run Node(i) }
	}
}
