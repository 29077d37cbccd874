SELECT count(*), min(placed) FROM purchase WHERE state = 'open';
